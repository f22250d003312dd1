//! Ids that the log lines of a request carry.

use std::fmt::{self, Write};
use std::sync::Arc;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::escape::escaped;

tokio::task_local! {
    static CURRENT: Arc<dyn LogContext>;
}

/// The subject of a log line: a request, for example.
pub trait LogContext: Send + Sync + 'static {
    /// Calls `add` with the name and the value of each field. Values are ASCII without quotes, backslashes and spaces.
    fn fields(&self, add: &mut dyn FnMut(&str, &dyn fmt::Display));
}

/// Runs `future`, whose log lines carry the fields of `context`. Tasks that it spawns do not.
pub fn with_context<F: Future>(
    context: Arc<dyn LogContext>,
    future: F,
) -> impl Future<Output = F::Output> {
    CURRENT.scope(context, future)
}

/// Writes lines as `format` does, escaped, and with the fields of the running request at the end.
pub(super) struct WithContext<T> {
    pub(super) format: T,
    pub(super) is_json: bool,
    pub(super) has_colors: bool,
}

impl<S, N, T> FormatEvent<S, N> for WithContext<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    T: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let fields = CURRENT.try_with(|current| fields(&**current, self.is_json));
        let fields = fields.unwrap_or_default();
        let mut line = String::new();
        self.format
            .format_event(context, Writer::new(&mut line), event)?;
        let end = if self.is_json { "}\n" } else { "\n" };
        match line.strip_suffix(end) {
            Some(line) => write!(writer, "{}{fields}{end}", escaped(line, self.has_colors)),
            None => writer.write_str(&line),
        }
    }
}

/// The text of the fields, as it follows others.
fn fields(context: &dyn LogContext, is_json: bool) -> String {
    let mut text = String::new();
    context.fields(&mut |name, value| {
        // A string takes all that is written.
        let _ = match is_json {
            true => write!(text, ",\"{name}\":\"{value}\""),
            false => write!(text, " {name}={value}"),
        };
    });
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    struct TwoIds;

    impl LogContext for TwoIds {
        fn fields(&self, add: &mut dyn FnMut(&str, &dyn fmt::Display)) {
            add("request_id", &"R1");
            add("trace_id", &7);
        }
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn collected(lines: &Lines) -> String {
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn foreign_text_makes_no_line_and_no_control_sequence() {
        let foreign = "x\n2026-01-01 ERROR forged\r\t\u{1b}[2K\u{7}\u{85}\u{202e}";
        for has_colors in [false, true] {
            let lines = Lines::default();
            let layer = crate::logs::formatted(false, has_colors, lines.clone());
            let layers = tracing_subscriber::registry().with(layer);
            tracing::subscriber::with_default(layers, || {
                tracing::info!(error = %foreign, "{foreign}");
            });
            let text = collected(&lines);
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            assert_eq!(
                text.matches("\\n2026-01-01 ERROR forged").count(),
                2,
                "{text:?}"
            );
            for raw in ["\r", "\t", "\u{1b}[2K", "\u{7}", "\u{85}", "\u{202e}"] {
                assert!(!text.contains(raw), "{raw:?}: {text:?}");
            }
            // Colors are the only sequences.
            assert_eq!(text.contains('\u{1b}'), has_colors, "{text:?}");
        }
    }

    async fn logged(is_json: bool) -> String {
        let lines = Lines::default();
        let layer = crate::logs::formatted(is_json, false, lines.clone());
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        tracing::info!(count = 1, "before");
        with_context(Arc::new(TwoIds), async {
            tracing::info!(count = 2, "inside");
            tokio::task::yield_now().await;
            tracing::info!("again");
        })
        .await;
        tracing::info!("after");
        drop(guard);
        collected(&lines)
    }

    #[tokio::test]
    async fn lines_inside_of_a_request_have_its_ids() {
        let text = logged(false).await;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for (line, end) in lines.iter().zip([
            "before count=1",
            "inside count=2 request_id=R1 trace_id=7",
            "again request_id=R1 trace_id=7",
            "after",
        ]) {
            assert!(line.ends_with(end), "{line}");
        }
    }

    #[tokio::test]
    async fn ids_are_fields_of_json_lines() {
        let text = logged(true).await;
        let lines = text.lines().map(|line| line.parse::<toml::Value>().err());
        assert_eq!(lines.count(), 4);
        let inside = text.lines().nth(1).unwrap();
        let end = r#""count":2,"target":"tidegate_daemon::logs::context::tests","request_id":"R1","trace_id":"7"}"#;
        assert!(inside.ends_with(end), "{inside}");
        assert!(!text.lines().next().unwrap().contains("request_id"));
        assert!(!text.lines().last().unwrap().contains("request_id"));
    }
}
