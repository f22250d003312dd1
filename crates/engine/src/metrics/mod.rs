//! The metrics of jobs and queues. `docs/metrics.md` lists them.
//!
//! | file | contents |
//! |---|---|
//! | `pool` | metrics of jobs, by pool and by queue |
//! | `namespaces` | limits of namespaces, and the publishes that limits have refused |
//! | `scraped` | the families that are made for a scrape: of servers, waiting consumers and queues |
//! | `series_table` | the bound on the number of names with their own metrics |
//!
//! Series with the label `namespace` come and go with the names, so they are made for each scrape.

mod namespaces;
pub(crate) mod pool;
pub(crate) mod scraped;
mod series_table;
pub(crate) mod storage_failure;

pub use pool::JobTraffic;
pub(crate) use pool::PoolMetrics;
pub use series_table::SeriesTable;
