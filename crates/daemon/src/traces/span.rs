//! A span that has ended.

use std::borrow::Cow;
use std::time::SystemTime;

use opentelemetry::trace::{Link, SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::trace_parent::TraceParent;

/// The name of the system in attributes of OpenTelemetry for messages.
const SYSTEM: &str = "tidegate";

/// The wall clock, as spans have it.
#[must_use]
pub fn wall_clock() -> SystemTime {
    #[expect(
        clippy::disallowed_methods,
        reason = "collectors compare spans of several machines"
    )]
    SystemTime::now()
}

/// The operation of a span, in the words of OpenTelemetry for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanRole {
    /// A publish: kind producer, operation type `send`.
    Send,
    /// A delivery: kind consumer, operation type `receive`.
    Receive,
    /// The end of a delivery: kind client, operation type `settle`.
    Settle,
    /// Anything else inside of the process.
    Internal,
}

impl SpanRole {
    const fn kind(self) -> SpanKind {
        match self {
            Self::Send => SpanKind::Producer,
            Self::Receive => SpanKind::Consumer,
            Self::Settle => SpanKind::Client,
            Self::Internal => SpanKind::Internal,
        }
    }

    const fn operation_type(self) -> Option<&'static str> {
        match self {
            Self::Send => Some("send"),
            Self::Receive => Some("receive"),
            Self::Settle => Some("settle"),
            Self::Internal => None,
        }
    }
}

/// A span that has ended. Its name has the operation and its queue.
#[derive(Debug)]
pub struct FinishedSpan<'a> {
    role: SpanRole,
    context: TraceParent,
    parent: Option<TraceParent>,
    links: Vec<Link>,
    operation: &'static str,
    destination: Cow<'a, str>,
    began_at: SystemTime,
    attributes: Vec<KeyValue>,
    status: Status,
}

impl<'a> FinishedSpan<'a> {
    /// A span with the ids of `context`, which began at `began_at` and ends when it is recorded.
    pub fn new(
        role: SpanRole,
        context: TraceParent,
        operation: &'static str,
        destination: impl Into<Cow<'a, str>>,
        began_at: SystemTime,
    ) -> Self {
        Self {
            role,
            context,
            parent: None,
            links: Vec::new(),
            operation,
            destination: destination.into(),
            began_at,
            attributes: Vec::with_capacity(8),
            status: Status::Unset,
        }
    }

    /// Sets the parent. It is in the same trace.
    #[must_use]
    pub const fn with_parent(mut self, parent: Option<TraceParent>) -> Self {
        self.parent = parent;
        self
    }

    /// Adds a link to a span of any trace.
    #[must_use]
    pub fn with_link(mut self, link: TraceParent) -> Self {
        self.links.push(Link::with_context(link.into()));
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push(KeyValue::new(name, value));
        self
    }

    /// Marks it as failed if there is an error.
    #[must_use]
    pub fn with_error(mut self, error: Option<String>) -> Self {
        if let Some(error) = error {
            self.status = Status::error(error);
        }
        self
    }

    pub(super) fn into_data(self, scope: &InstrumentationScope) -> SpanData {
        let Self {
            role,
            context,
            parent,
            links,
            operation,
            destination,
            began_at,
            mut attributes,
            status,
        } = self;
        let name = format!("{operation} {destination}");
        attributes.push(KeyValue::new("messaging.system", SYSTEM));
        if let Some(operation_type) = role.operation_type() {
            attributes.extend([
                KeyValue::new("messaging.operation.name", operation),
                KeyValue::new("messaging.operation.type", operation_type),
                KeyValue::new("messaging.destination.name", destination.into_owned()),
            ]);
        }
        let mut span_links = SpanLinks::default();
        span_links.links = links;
        SpanData {
            span_context: context.into(),
            parent_span_id: parent.map_or(SpanId::INVALID, |parent| parent.span_id()),
            parent_span_is_remote: parent.is_some(),
            span_kind: role.kind(),
            name: name.into(),
            start_time: began_at,
            // The clock may have been set back.
            end_time: wall_clock().max(began_at),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: span_links,
            status,
            instrumentation_scope: scope.clone(),
        }
    }
}
