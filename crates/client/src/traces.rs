//! Links between the spans of producers and of workers, with the crates of OpenTelemetry.

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The version of W3C Trace Context that is written. Later ones begin with the same fields.
const VERSION: &str = "00";

/// The trace parent of the running span, if it is sampled.
pub(crate) fn trace_parent() -> Option<String> {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    (span.is_valid() && span.is_sampled()).then(|| {
        let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags());
        format!("{VERSION}-{trace}-{id}-{flags:02x}")
    })
}

/// Links a span to the span with this trace parent. A text that is none has no effect: the attribute of a job is
/// written by any producer.
pub(crate) fn link(span: &Span, trace_parent: &str) {
    if let Some(context) = parse(trace_parent) {
        span.add_link(context);
    }
}

/// Makes a span the child of the span with this trace parent, which the server has made.
pub(crate) fn set_parent(span: &Span, trace_parent: &str) {
    if let Some(context) = parse(trace_parent) {
        let parent = opentelemetry::Context::new().with_remote_span_context(context);
        // Fails without a layer for OpenTelemetry.
        let _ = span.set_parent(parent);
    }
}

fn parse(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (version, trace, id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, length| {
        part.len() == length
            && part
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_valid = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(id, 16);
    if !is_valid || !is_hex(flags, 2) || (version == VERSION && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let (trace, id) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(id).ok()?);
    let context = SpanContext::new(trace, id, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trace_parents_are_read() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = parse(valid).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
        assert!(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-later").is_some());
        for text in [
            "",
            "00-1-2-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
