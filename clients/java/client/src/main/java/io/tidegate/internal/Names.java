package io.tidegate.internal;

import io.tidegate.error.Failure;
import io.tidegate.error.InvalidRequestException;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/** Names in paths, and the encoding of texts in URLs. */
public final class Names {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_-]{1,255}");
    private static final String PLAIN = "-_.~";
    private static final char[] HEX = "0123456789ABCDEF".toCharArray();

    private Names() {}

    /**
     * Checks the name of a namespace, queue, schedule or API key.
     *
     * @throws InvalidRequestException if it is none: it would name another path
     */
    public static String check(String kind, String name) {
        if (name == null || !NAME.matcher(name).matches()) {
            String detail = "the name \"" + name + "\" is not 1 to 255 letters, digits, - or _";
            throw new InvalidRequestException(Failure.notSent(kind, detail), null);
        }
        return name;
    }

    /** Percent-encodes all bytes of the UTF-8 but letters, digits and {@code - _ . ~}. */
    public static String encode(String text) {
        StringBuilder encoded = new StringBuilder(text.length() + 16);
        for (byte octet : text.getBytes(StandardCharsets.UTF_8)) {
            char letter = (char) (octet & 0xff);
            if (isPlain(letter)) {
                encoded.append(letter);
            } else {
                encoded.append('%').append(HEX[letter >> 4]).append(HEX[letter & 0xf]);
            }
        }
        return encoded.toString();
    }

    private static boolean isPlain(char letter) {
        return letter >= 'a' && letter <= 'z'
                || letter >= 'A' && letter <= 'Z'
                || letter >= '0' && letter <= '9'
                || PLAIN.indexOf(letter) >= 0;
    }
}
