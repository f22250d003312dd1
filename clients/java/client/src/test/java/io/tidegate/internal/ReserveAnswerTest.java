package io.tidegate.internal;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import io.tidegate.error.ConnectionException;
import io.tidegate.model.LeaseOutcome;
import io.tidegate.model.LeasedJob;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ReserveAnswerTest {
    private static final String JOB = """
            {"id":"01J","queue":"q","lease":"01J.1.q","lease_until":"2026-11-23T09:11:05.500Z","attempt":1,"failures":2,
             "losses":3,"run_at":"2026-11-23T09:11:04.000Z","created_at":"2026-11-23T09:11:03.000Z","later":{"a":[1]},
             "content_type":"application/json","key":"käse","attributes":{"a":"ü"},"payload":%s}""";

    private static ReserveAnswer read(String text) {
        return ReserveAnswer.read(text.getBytes(StandardCharsets.UTF_8), Json.forPayloads());
    }

    private static LeasedJob job(String payload) {
        String answer = "{\"now\":\"2026-11-23T09:11:04.000Z\",\"jobs\":[" + JOB.formatted(payload) + "]}";
        return read(answer).jobs().get(0);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "{\"n\":9007199254740993}", "9007199254740993", "1.10", "-0", "\"text \\u00fc ☃\"", "true", "false", "null",
        "[1, 2 ,{\"a\" : [ ] }]", "{}", "\"\"", "[]"
    })
    void payloadsOfJsonStayAsTheyWereSent(String payload) {
        assertEquals(payload, new String(job(payload).payload().bytes(), StandardCharsets.UTF_8));
        assertEquals(payload, new String(job(payload + " ").payload().bytes(), StandardCharsets.UTF_8));
    }

    @Test
    void integersOf64BitsAndDecimalsLoseNothing() {
        JsonNode payload = job("{\"n\":9007199254740993,\"d\":0.1000000000000000055511151231257827}").payload().json();
        assertEquals(9007199254740993L, payload.path("n").longValue());
        assertEquals("0.1000000000000000055511151231257827", payload.path("d").decimalValue().toPlainString());
    }

    @Test
    void aJobHasAllParts() {
        LeasedJob job = job("1");
        assertEquals(Duration.ofMillis(1500), job.leaseLength());
        assertEquals("käse", job.key());
        assertEquals(Map.of("a", "ü"), job.attributes());
        assertEquals(List.of(1, 2, 3), List.of(job.attempt(), job.failures(), job.losses()));
    }

    @Test
    void bytesAreDecoded() {
        String answer = JOB.formatted("null").replace("\"payload\":null", "\"payload_base64\":\"AP8=\"");
        LeasedJob job = read("{\"jobs\":[" + answer + "],\"now\":\"2026-11-23T09:11:04.000Z\"}").jobs().get(0);
        assertArrayEquals(new byte[] {0, -1}, job.payload().bytes());
    }

    @Test
    void outcomesOfReportsAreRead() {
        ReserveAnswer answer = read("""
                {"jobs":[],"settled":{"ack":[{"outcome":"done"},{"outcome":"gone"}],
                 "fail":[{"outcome":"retry","run_at":"2026-11-23T09:11:04.000Z"},{"outcome":"later"}]}}""");
        assertEquals(List.of(LeaseOutcome.DONE, LeaseOutcome.GONE), answer.acked());
        assertEquals(List.of(LeaseOutcome.RETRY, LeaseOutcome.UNKNOWN), answer.failed());
    }

    @Test
    void anAnswerThatIsCutIsAnErrorOfTheConnection() {
        assertThrows(ConnectionException.class, () -> read("{\"jobs\":[{\"id\":"));
    }
}
