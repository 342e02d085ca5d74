// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

/** A request or an answer that cannot be used; the message is one sentence for the client. */
final class Refusal extends RuntimeException {
    Refusal(String message) {
        super(message, null, false, false);
    }
}
