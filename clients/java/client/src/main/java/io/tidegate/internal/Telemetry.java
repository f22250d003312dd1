package io.tidegate.internal;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The contexts of OpenTelemetry, if its API is on the class path. It is found by reflection: it is no dependency. */
public final class Telemetry {
    private static final Pattern TRACE_PARENT =
            Pattern.compile("[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2}).*");
    private static final Api API = Api.find();

    private Telemetry() {}

    /** A context that ends when it is closed. */
    public interface Scope extends AutoCloseable {
        @Override
        void close();
    }

    /** The trace parent (W3C Trace Context) of the running span, or null if there is none that is sampled. */
    public static String traceParent() {
        return API == null ? null : API.traceParent();
    }

    /** Makes the span with this trace parent the running one. Nothing happens if it is null or not valid. */
    public static Scope enter(String traceParent) {
        if (API == null || traceParent == null) {
            return () -> {};
        }
        Matcher parts = TRACE_PARENT.matcher(traceParent);
        return parts.matches() ? API.enter(parts.group(1), parts.group(2), parts.group(3)) : () -> {};
    }

    private record Api(
            Method currentSpan,
            Method spanContext,
            Method isValid,
            Method isSampled,
            Method traceId,
            Method spanId,
            Method remoteContext,
            Method flagsOfHex,
            Object emptyState,
            Method wrap,
            Method makeCurrent,
            Method closeScope) {

        static Api find() {
            String trace = "io.opentelemetry.api.trace.";
            String context = "io.opentelemetry.context.";
            try {
                Class<?> span = Class.forName(trace + "Span");
                Class<?> spanContext = Class.forName(trace + "SpanContext");
                Class<?> flags = Class.forName(trace + "TraceFlags");
                Class<?> state = Class.forName(trace + "TraceState");
                return new Api(
                        span.getMethod("current"),
                        span.getMethod("getSpanContext"),
                        spanContext.getMethod("isValid"),
                        spanContext.getMethod("isSampled"),
                        spanContext.getMethod("getTraceId"),
                        spanContext.getMethod("getSpanId"),
                        spanContext.getMethod("createFromRemoteParent", String.class, String.class, flags, state),
                        flags.getMethod("fromHex", CharSequence.class, int.class),
                        state.getMethod("getDefault").invoke(null),
                        span.getMethod("wrap", spanContext),
                        Class.forName(context + "ImplicitContextKeyed").getMethod("makeCurrent"),
                        Class.forName(context + "Scope").getMethod("close"));
            } catch (ReflectiveOperationException | LinkageError absent) {
                return null;
            }
        }

        String traceParent() {
            Object context = invoke(spanContext, invoke(currentSpan, null));
            if (!(Boolean) invoke(isValid, context) || !(Boolean) invoke(isSampled, context)) {
                return null;
            }
            return "00-" + invoke(traceId, context) + "-" + invoke(spanId, context) + "-01";
        }

        Scope enter(String trace, String span, String hexFlags) {
            Object flags = invoke(flagsOfHex, null, hexFlags, 0);
            Object context = invoke(remoteContext, null, trace, span, flags, emptyState);
            Object scope = invoke(makeCurrent, invoke(wrap, null, context));
            return () -> invoke(closeScope, scope);
        }

        private static Object invoke(Method method, Object target, Object... arguments) {
            try {
                return method.invoke(target, arguments);
            } catch (IllegalAccessException | InvocationTargetException error) {
                throw new IllegalStateException("the API of OpenTelemetry failed", error);
            }
        }
    }
}
