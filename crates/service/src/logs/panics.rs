//! Panics go to the log. The hook of the standard library writes to standard error and waits for its reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::thread;

/// Logs a panic on one line, and behind it the backtrace if RUST_BACKTRACE asks for one.
pub(super) fn log(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    let message = panic.to_string().replace('\n', " ");
    tracing::error!(thread = name, "{message}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(thread = name, "backtrace of the panic:\n{backtrace}");
    }
}
