//! The metrics of jobs and queues. `docs/metrics.md` lists them.
//!
//! | file | contents |
//! |---|---|
//! | `pool` | metrics of jobs, by pool and by queue |
//! | `gauges` | figures of servers, read from Redis on demand, and waiting consumers |
//! | `series_table` | the bound on the number of names with their own metrics |
//!
//! Series with the label `namespace` come and go with the names: series of jobs are removed with their entry in the
//! table, series of waiting consumers are made for each scrape.

pub(crate) mod gauges;
pub(crate) mod pool;
mod series_table;
pub(crate) mod storage_failure;

pub use pool::JobTraffic;
pub(crate) use pool::PoolMetrics;
pub use series_table::SeriesTable;
