// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.lang.invoke.*;
import java.lang.reflect.*;
import java.util.*;
import java.util.concurrent.Callable;

/** Reflection where Forge's versions differ. */
final class Reflect {
    static Field field(Class<?> owner, String name) {
        try {
            Field field = owner.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException absent) {
            return null;
        }
    }

    /** The same, null too if it is of another type. */
    static Field field(Class<?> owner, String name, Class<?> type) {
        Field field = field(owner, name);
        return field != null && field.getType() == type ? field : null;
    }

    static Class<?> type(String name) {
        try {
            return Class.forName(name, false, Reflect.class.getClassLoader());
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    /** The first public method of that name with one of these numbers of parameters, tried in order; null if none exists. */
    static Method method(Class<?> owner, String name, int... parameters) {
        for (int count : parameters) {
            for (Method method : owner.getMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == count) {
                    return method;
                }
            }
        }
        return null;
    }

    /** A method that is not public; null where this version does not have it. */
    static Method hidden(Class<?> owner, String name, Class<?>... parameters) {
        try {
            Method method = owner.getDeclaredMethod(name, parameters);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException absent) {
            return null;
        }
    }

    /** A public field, or a component of what has become a record. */
    static Object part(Object whole, String name) {
        Method method = method(whole.getClass(), name, 0);
        return method != null ? call(method, whole) : get(field(whole.getClass(), name), whole);
    }

    /** Calls a method whose parameters differ between versions: each gets the first argument left that fits it, or null. */
    static Object fit(Method method, Object self, Object... arguments) {
        List<Object> left = new ArrayList<>(Arrays.asList(arguments));
        List<Object> values = new ArrayList<>();
        for (Class<?> type : MethodType.methodType(void.class, method.getParameterTypes()).wrap().parameterArray()) {
            Object value = left.stream().filter(type::isInstance).findFirst().orElse(null);
            left.remove(value);
            values.add(value);
        }
        return call(method, self, values.toArray());
    }

    /** Calls a method that not every version has. */
    static void tell(Object self, String name, Object... arguments) {
        Method method = method(self.getClass(), name, arguments.length);
        if (method != null) {
            call(method, self, arguments);
        }
    }

    static Object call(Method method, Object self, Object... arguments) {
        try {
            return method.invoke(self, arguments);
        } catch (InvocationTargetException wrapped) {
            throw unchecked(wrapped.getCause());
        } catch (IllegalAccessException hidden) {
            throw new IllegalStateException(hidden);
        }
    }

    static Object get(Field field, Object self) {
        try {
            return field.get(self);
        } catch (IllegalAccessException hidden) {
            throw new IllegalStateException(hidden);
        }
    }

    /** Null is the field that this version does not have: nothing happens. */
    static void set(Field field, Object self, Object value) {
        try {
            if (field != null) {
                field.set(self, value);
            }
        } catch (IllegalAccessException hidden) {
            throw new IllegalStateException(hidden);
        }
    }

    /** A handle; null where this version or JVM does not have or allow it. */
    static MethodHandle handle(Callable<MethodHandle> found) {
        try {
            return found.call();
        } catch (Exception absent) {
            return null;
        }
    }

    /** To be thrown where only unchecked ones may be; errors are thrown here. */
    static RuntimeException unchecked(Throwable problem) {
        if (problem instanceof Error error) {
            throw error;
        }
        return problem instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(problem);
    }
}
