// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.*;
import java.lang.invoke.MethodType;
import java.lang.reflect.*;
import java.util.*;

/**
 * Writes the class of Bridge: for each method it holds `return (R) Bridge.call(this, i, new Object[] {a, b, ..});`, as the few
 * instructions that this takes, and a constructor that calls the one of Seat. No method has a branch, a long or a double.
 */
final class ClassFile {
    private static final String NAME = "forgedaemon/BridgedSeat";
    private static final MethodType CALL = MethodType.methodType(Object.class, Seat.class, int.class, Object[].class);

    private final ByteArrayOutputStream pool = new ByteArrayOutputStream();
    private final DataOutputStream constants = new DataOutputStream(pool);
    /** Numbers of the constants: of a text, or of (tag, parts). */
    private final Map<Object, Integer> known = new HashMap<>();

    byte[] bridge(List<Method> methods) throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(body);
        out.writeShort(Modifier.FINAL | 0x20);
        out.writeShort(type(NAME));
        out.writeShort(type(Seat.class));
        out.writeShort(0); // interfaces
        out.writeShort(0); // fields
        out.writeShort(methods.size() + 1);
        writeMethod(out, 0, "<init>", parent(), -1);
        for (int i = 0; i < methods.size(); i++) {
            Method method = methods.get(i);
            MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes());
            writeMethod(out, Modifier.PUBLIC, method.getName(), type, i);
        }
        out.writeShort(0); // attributes
        ByteArrayOutputStream result = new ByteArrayOutputStream();
        DataOutputStream head = new DataOutputStream(result);
        head.writeInt(0xCAFEBABE);
        head.writeInt(52);
        head.writeShort(known.size() + 1);
        pool.writeTo(head);
        body.writeTo(head);
        return result.toByteArray();
    }

    private static MethodType parent() {
        return MethodType.methodType(void.class, Seat.class.getDeclaredConstructors()[0].getParameterTypes());
    }

    /** Index -1 is the constructor. */
    private void writeMethod(DataOutputStream out, int flags, String name, MethodType type, int index) throws IOException {
        ByteArrayOutputStream code = new ByteArrayOutputStream();
        DataOutputStream to = new DataOutputStream(code);
        to.writeByte(0x2a); // aload_0
        if (index < 0) {
            parentCall(to, type);
        } else {
            bridgedCall(to, type, index);
        }
        int slots = type.parameterCount() + 1;
        out.writeShort(flags);
        out.writeShort(utf8(name));
        out.writeShort(utf8(type.toMethodDescriptorString()));
        out.writeShort(1);
        out.writeShort(utf8("Code"));
        out.writeInt(12 + code.size());
        out.writeShort(slots + 8); // stack
        out.writeShort(slots); // locals
        out.writeInt(code.size());
        code.writeTo(out);
        out.writeShort(0); // exceptions
        out.writeShort(0); // attributes
    }

    private void parentCall(DataOutputStream to, MethodType type) throws IOException {
        for (int i = 0; i < type.parameterCount(); i++) {
            load(to, type.parameterType(i), i);
        }
        to.writeByte(0xb7); // invokespecial
        to.writeShort(method(Seat.class, "<init>", type));
        to.writeByte(0xb1); // return
    }

    private void bridgedCall(DataOutputStream to, MethodType type, int index) throws IOException {
        push(to, index);
        push(to, type.parameterCount());
        to.writeByte(0xbd); // anewarray
        to.writeShort(type(Object.class));
        for (int i = 0; i < type.parameterCount(); i++) {
            to.writeByte(0x59); // dup
            push(to, i);
            Class<?> parameter = type.parameterType(i);
            load(to, parameter, i);
            if (parameter.isPrimitive()) {
                Class<?> box = type.wrap().parameterType(i);
                to.writeByte(0xb8); // invokestatic
                to.writeShort(method(box, "valueOf", MethodType.methodType(box, parameter)));
            }
            to.writeByte(0x53); // aastore
        }
        to.writeByte(0xb8);
        to.writeShort(method(Bridge.class, "call", CALL));
        Class<?> result = type.returnType();
        Class<?> box = type.wrap().returnType();
        if (result == void.class) {
            to.writeByte(0xb1); // return
            return;
        }
        to.writeByte(0xc0); // checkcast
        to.writeShort(type(box));
        if (result.isPrimitive()) {
            to.writeByte(0xb6); // invokevirtual
            to.writeShort(method(box, result.getName() + "Value", MethodType.methodType(result)));
        }
        to.writeByte(result.isPrimitive() ? 0xac : 0xb0); // ireturn, areturn
    }

    private static void load(DataOutputStream to, Class<?> type, int parameter) throws IOException {
        to.writeByte(type.isPrimitive() ? 0x15 : 0x19); // iload, aload
        to.writeByte(parameter + 1);
    }

    private static void push(DataOutputStream to, int value) throws IOException {
        to.writeByte(0x11); // sipush
        to.writeShort(value);
    }

    // ---- constants

    private int type(Class<?> type) throws IOException {
        return type(type.getName().replace('.', '/'));
    }

    private int type(String name) throws IOException {
        return entry(7, utf8(name));
    }

    private int method(Class<?> owner, String name, MethodType type) throws IOException {
        return entry(10, type(owner), entry(12, utf8(name), utf8(type.toMethodDescriptorString())));
    }

    private int entry(Integer tag, Integer... parts) throws IOException {
        List<Object> key = List.of(tag, List.of(parts));
        if (!known.containsKey(key)) {
            constants.writeByte(tag);
            for (int part : parts) {
                constants.writeShort(part);
            }
            known.put(key, known.size() + 1);
        }
        return known.get(key);
    }

    private int utf8(String text) throws IOException {
        if (!known.containsKey(text)) {
            constants.writeByte(1);
            constants.writeUTF(text);
            known.put(text, known.size() + 1);
        }
        return known.get(text);
    }
}
