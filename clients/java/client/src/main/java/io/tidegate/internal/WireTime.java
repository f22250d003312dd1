package io.tidegate.internal;

import io.tidegate.error.Failure;
import io.tidegate.error.InvalidRequestException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;

/** Durations and instants as the server reads them. */
public final class WireTime {
    private static final int NANOS_PER_MS = 1_000_000;

    private WireTime() {}

    /**
     * A duration in whole milliseconds, rounded up, so that a short delay does not become none.
     *
     * @throws InvalidRequestException if it is negative or too long
     */
    public static long millis(String field, Duration duration) {
        if (duration.isNegative()) {
            throw invalid(field, "the duration " + duration + " is negative");
        }
        try {
            return duration.plusNanos(NANOS_PER_MS - 1L).toMillis();
        } catch (ArithmeticException tooLong) {
            throw invalid(field, "the duration " + duration + " is too long");
        }
    }

    /** The text of a duration, such as {@code 1500ms}. */
    public static String text(String field, Duration duration) {
        return millis(field, duration) + "ms";
    }

    /** An instant in milliseconds since 1970, rounded up. */
    public static long millis(String field, Instant instant) {
        try {
            return instant.plusNanos(NANOS_PER_MS - 1L).toEpochMilli();
        } catch (ArithmeticException | java.time.DateTimeException tooFar) {
            throw invalid(field, "the instant " + instant + " is too far away");
        }
    }

    /** Reads an instant of an answer. The form that servers write is read without the formatter, which is slow. */
    public static Instant instant(String text) {
        boolean isUsual = text.length() == 24 && text.charAt(19) == '.' && text.charAt(23) == 'Z';
        if (!isUsual) {
            return Instant.parse(text);
        }
        try {
            long day = LocalDate.of(number(text, 0, 4), number(text, 5, 7), number(text, 8, 10)).toEpochDay();
            long seconds = number(text, 11, 13) * 3600L + number(text, 14, 16) * 60L + number(text, 17, 19);
            return Instant.ofEpochSecond(day * 86_400 + seconds, number(text, 20, 23) * (long) NANOS_PER_MS);
        } catch (NumberFormatException other) {
            return Instant.parse(text);
        }
    }

    private static int number(String text, int begin, int end) {
        return Integer.parseInt(text, begin, end, 10);
    }

    private static InvalidRequestException invalid(String field, String detail) {
        return new InvalidRequestException(Failure.notSent(field, detail), null);
    }
}
