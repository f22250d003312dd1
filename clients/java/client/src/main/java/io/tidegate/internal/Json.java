package io.tidegate.internal;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import io.tidegate.error.Applied;
import io.tidegate.error.ConnectionException;
import io.tidegate.error.Failure;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;

/** The JSON of the wire: names with underscores, instants as RFC 3339, durations in ms. */
public final class Json {
    /** Reads and writes documents of the server. Payloads of users have a mapper of their own. */
    public static final JsonMapper WIRE = JsonMapper.builder()
            .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .enable(DeserializationFeature.READ_UNKNOWN_ENUM_VALUES_USING_DEFAULT_VALUE)
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .defaultPropertyInclusion(JsonInclude.Value.construct(
                    JsonInclude.Include.NON_NULL, JsonInclude.Include.ALWAYS))
            .addModule(times())
            .build();

    private Json() {}

    /** The mapper of payloads and results, unless the user has another one. */
    public static JsonMapper forPayloads() {
        return JsonMapper.builder()
                .findAndAddModules()
                .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
                .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
                .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
                .build();
    }

    /** Reads an answer of the server. */
    public static <T> T read(byte[] body, Class<T> type) {
        return read(body, WIRE.constructType(type));
    }

    /** Reads an answer of the server. */
    public static <T> T read(byte[] body, JavaType type) {
        try {
            return WIRE.readValue(body, type);
        } catch (IOException error) {
            throw unreadable(error);
        }
    }

    /** The bytes of a document. */
    public static byte[] write(Object document) {
        try {
            return WIRE.writeValueAsBytes(document);
        } catch (JacksonException error) {
            throw new IllegalStateException("a document of the client is not JSON", error);
        }
    }

    /** A request may have had its effect although its answer cannot be read. */
    static ConnectionException unreadable(IOException error) {
        String detail = "failed to read the answer of the server: " + error.getMessage();
        return new ConnectionException(Failure.withoutAnswer(Applied.UNKNOWN, detail), error);
    }

    private static SimpleModule times() {
        return new SimpleModule("tidegate-times")
                .addSerializer(Instant.class, new InstantWriter())
                .addDeserializer(Instant.class, new InstantReader())
                .addSerializer(Duration.class, new DurationWriter())
                .addDeserializer(Duration.class, new DurationReader());
    }

    private static final class InstantWriter extends StdSerializer<Instant> {
        private static final DateTimeFormatter FORM =
                DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);

        InstantWriter() {
            super(Instant.class);
        }

        @Override
        public void serialize(Instant instant, JsonGenerator out, SerializerProvider provider) throws IOException {
            out.writeString(FORM.format(instant));
        }
    }

    private static final class InstantReader extends StdDeserializer<Instant> {
        InstantReader() {
            super(Instant.class);
        }

        @Override
        public Instant deserialize(JsonParser in, DeserializationContext context) throws IOException {
            boolean isMillis = in.currentToken().isNumeric();
            return isMillis ? Instant.ofEpochMilli(in.getLongValue()) : WireTime.instant(in.getText());
        }
    }

    private static final class DurationWriter extends StdSerializer<Duration> {
        DurationWriter() {
            super(Duration.class);
        }

        @Override
        public void serialize(Duration duration, JsonGenerator out, SerializerProvider provider) throws IOException {
            out.writeNumber(duration.toMillis());
        }
    }

    private static final class DurationReader extends StdDeserializer<Duration> {
        DurationReader() {
            super(Duration.class);
        }

        @Override
        public Duration deserialize(JsonParser in, DeserializationContext context) throws IOException {
            return Duration.ofMillis(in.getLongValue());
        }
    }
}
