package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.tidegate.error.Applied;
import io.tidegate.error.TidegateException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ProblemsTest {
    private static TidegateException problem(int status, String body) {
        return Problems.of(new HttpReply(status, name -> null, body.getBytes(StandardCharsets.UTF_8)));
    }

    @ParameterizedTest
    @CsvSource({
        "400, invalid_parameter, InvalidRequestException", "401, key_invalid, AuthException",
        "403, scope_missing, AuthException", "404, job_not_found, NotFoundException",
        "409, key_taken, ConflictException", "412, version_mismatch, ConflictException",
        "413, payload_too_large, InvalidRequestException", "422, idempotency_key_reused, ConflictException",
        "422, another, InvalidRequestException", "429, queue_full, RateLimitedException",
        "500, internal_error, ServerException", "507, storage_full, ServerException",
    })
    void theClassFollowsTheCode(int status, String code, String name) {
        TidegateException error = problem(status, "{\"code\":\"" + code + "\",\"detail\":\"d\"}");
        assertEquals(name, error.getClass().getSimpleName());
        assertEquals(name, error.copy().getClass().getSimpleName());
        assertEquals(status, error.status());
        assertEquals(code, error.code());
    }

    @Test
    void aDocumentHasAllFacts() {
        TidegateException error = problem(504, """
                {"status":504,"code":"not_durable","detail":"late","applied":"yes","job":"01J","field":null}""");
        assertEquals(Applied.YES, error.applied());
        assertEquals(Optional.of("01J"), error.jobId());
        assertEquals(Optional.empty(), error.field());
        assertEquals("504 not_durable: late", error.getMessage());
    }

    @Test
    void anAnswerOfAProxyIsNoDocument() {
        TidegateException error = problem(502, "<html>bad gateway</html>");
        assertEquals(Applied.UNKNOWN, error.applied());
        assertEquals("", error.code());
        assertEquals("unexpected answer: <html>bad gateway</html>", error.detail());
    }

    @Test
    void retryAfterIsSecondsOrADate() {
        Instant now = Instant.parse("2026-11-30T10:00:00Z");
        assertEquals(Duration.ofSeconds(7), Problems.retryAfter(" 7 ", now));
        assertEquals(Duration.ofSeconds(5), Problems.retryAfter("Mon, 30 Nov 2026 10:00:05 GMT", now));
        assertEquals(Duration.ZERO, Problems.retryAfter("Mon, 30 Nov 2026 09:00:00 GMT", now));
        assertNull(Problems.retryAfter("soon", now));
        assertNull(Problems.retryAfter(null, now));
    }
}
