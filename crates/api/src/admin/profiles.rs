//! `/debug/pprof/…`: there is no profiler inside, and this says what to use instead. The reasons are in
//! `docs/decisions/0008-no-profiler-inside.md`.

use axum::http::StatusCode;

const TEXT: &str = "\
404: this server has no profiler inside.

Processor time, from outside and without a restart (PID is the process id):
  perf record -F 99 -g -p PID -- sleep 30 && perf report

Memory, from outside:
  heaptrack --pid PID

Memory, with the profiler of jemalloc:
  cargo build --release -p tidegate-api --features jemalloc,tikv-jemallocator/profiling
  _RJEM_MALLOC_CONF=prof:true,prof_final:true tidegate-api ...
  Stop it: it leaves a file jeprof.*.heap, which jeprof reads.
";

pub(super) async fn none() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, TEXT)
}
