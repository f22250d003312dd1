//! Logs panics. The hook of the standard library would block on a standard error that nothing reads.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::thread;

/// Logs a panic on one line, followed by the lines of the backtrace if RUST_BACKTRACE is set.
pub(super) fn log(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    let message = panic.to_string().replace('\n', " ");
    tracing::error!(thread = name, "{message}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        // A line break inside of an event would be escaped.
        for line in backtrace.to_string().lines() {
            tracing::error!(thread = name, "backtrace of the panic: {line}");
        }
    }
}
