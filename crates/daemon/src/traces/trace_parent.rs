//! The header `traceparent`: <https://www.w3.org/TR/trace-context/>.

use std::fmt;
use std::str::FromStr;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The version that is written. Later ones begin with the same fields.
const VERSION: &str = "00";
/// The bytes of a header of this version.
const BYTES: usize = 55;
/// A later version may add fields.
const BYTES_MAX: usize = 512;

/// A span, as other processes refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: TraceId,
    span_id: SpanId,
    flags: TraceFlags,
}

/// A text is no trace parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a trace parent: it is like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
pub struct InvalidTraceParent;

impl TraceParent {
    pub(super) const fn sampled(trace_id: TraceId, span_id: SpanId) -> Self {
        Self {
            trace_id,
            span_id,
            flags: TraceFlags::SAMPLED,
        }
    }

    /// A sampled span with these ids. Ids of 0, which are not valid, become 1.
    #[must_use]
    pub fn from_ids(trace_id: u128, span_id: u64) -> Self {
        let (trace_id, span_id) = (trace_id.max(1), span_id.max(1));
        Self::sampled(
            TraceId::from_bytes(trace_id.to_be_bytes()),
            SpanId::from_bytes(span_id.to_be_bytes()),
        )
    }

    /// Reads a text whose span is sampled. Any other text is none: it may come from any client.
    #[must_use]
    pub fn read_sampled(text: &str) -> Option<Self> {
        text.parse().ok().filter(|it: &Self| it.flags.is_sampled())
    }

    pub(super) const fn with_span(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }

    /// The id of the trace; shown as 32 hexadecimal digits.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    pub(super) const fn span_id(&self) -> SpanId {
        self.span_id
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            span_id,
            flags,
        } = self;
        write!(out, "{VERSION}-{trace_id}-{span_id}-{flags:02x}")
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        read(text).ok_or(InvalidTraceParent)
    }
}

fn read(text: &str) -> Option<TraceParent> {
    if !(BYTES..=BYTES_MAX).contains(&text.len()) {
        return None;
    }
    let mut parts = text.split('-');
    let (version, trace_id, span_id) = (parts.next()?, parts.next()?, parts.next()?);
    let flags = parts.next()?;
    let is_hex = |part: &str, length| {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        part.len() == length && part.bytes().all(is_digit)
    };
    let is_valid = is_hex(version, 2) && version != "ff" && is_hex(trace_id, 32);
    if !is_valid || !is_hex(span_id, 16) || !is_hex(flags, 2) {
        return None;
    }
    if version == VERSION && text.len() != BYTES {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    let parent = TraceParent {
        trace_id: TraceId::from_hex(trace_id).ok()?,
        span_id: SpanId::from_hex(span_id).ok()?,
        // Other flags are not known, and must not be passed on.
        flags: TraceFlags::new(flags) & TraceFlags::SAMPLED,
    };
    let is_set = parent.trace_id != TraceId::INVALID && parent.span_id != SpanId::INVALID;
    is_set.then_some(parent)
}

impl From<TraceParent> for SpanContext {
    fn from(parent: TraceParent) -> Self {
        let TraceParent {
            trace_id,
            span_id,
            flags,
        } = parent;
        Self::new(trace_id, span_id, flags, true, TraceState::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_parent_is_written_as_it_was_read() {
        assert_eq!(VALID.parse::<TraceParent>().unwrap().to_string(), VALID);
        let later = VALID.replacen("00-", "cc-", 1).replace("-01", "-03-more");
        assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), VALID);
        let unsampled = VALID.replace("-01", "-00");
        assert_eq!(
            unsampled.parse::<TraceParent>().unwrap().to_string(),
            unsampled
        );
        assert_eq!(TraceParent::read_sampled(&unsampled), None);
        let made = TraceParent::from_ids(0, 0).to_string();
        assert!(TraceParent::read_sampled(&made).is_some(), "{made}");
    }

    #[test]
    fn other_texts_are_none() {
        for bad in [
            "",
            "00-1-2-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1 ",
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(InvalidTraceParent), "{bad}");
        }
        let endless = format!("01{}-{}", &VALID[2..], "x".repeat(BYTES_MAX));
        assert!(endless.parse::<TraceParent>().is_err());
    }
}
