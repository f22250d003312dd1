//! `/debug/pprof/…`: answers 404 with a list of tools to use instead, since there is no built-in profiler.
//!
//! The crate `pprof` unwinds stacks in a signal handler, with locks and tables of the loader: a signal at the wrong
//! moment is a deadlock or a crash (tikv/pprof-rs#36, rust-lang/backtrace-rs#742). Walking frame pointers takes no
//! locks, but the standard library is shipped without them. External tools profile a running process in more detail.

use axum::http::StatusCode;

const TEXT: &str = "\
404: this server has no built-in profiler. Use one of these tools.

CPU time, without a restart (PID is the process id):
  perf record -F 99 -g -p PID -- sleep 30 && perf report

Memory, without a restart:
  heaptrack --pid PID

Memory, with the profiler of jemalloc:
  cargo build --release -p tidegate-api --features tikv-jemallocator/profiling
  _RJEM_MALLOC_CONF=prof:true,prof_final:true tidegate-api ...
  When the process stops, it writes a file jeprof.*.heap for jeprof.
";

pub(super) async fn no_profiler() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, TEXT)
}
