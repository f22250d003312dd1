//! A soak: a mixed load at half of the capacity for an hour, with restarts, scrapes and audits.
//!
//! ```text
//!  run ─┬─► deployment  Redis, two APIs, two pumps; one of each restarts in turns
//!       ├─► load        pace ─► publisher ─► consumer, over endpoints of both APIs on both wires
//!       │                          └──────────┴─► job_stream ─► closed_jobs ─► oracle; keeps only jobs that have not ended
//!       ├─► scrape      all metrics
//!       └─► sample      memory, files, connections, lateness, throughput
//!              ▼
//!           report ─► verdict
//! ```

mod calculation;
mod closed_jobs;
mod consumer;
mod deployment;
mod endpoints;
mod job_stream;
mod load;
mod open_job;
mod pace;
mod process_usage;
mod publisher;
mod report;
mod results;
mod run;
mod sample;
mod scrape;
mod state;
mod tally;
mod times;
mod verdict;

pub use deployment::{PROCESSES, RESTARTED};
pub use job_stream::SoakCounts;
pub use report::{heading, line};
pub use results::{SoakAudits, SoakReport, SoakRestart};
pub use run::{SoakOptions, SoakProgress, run_soak};
pub use sample::{ProcessSample, SoakSample};
pub use scrape::ScrapeCounts;
pub use times::SoakTimes;
pub use verdict::{SoakCheck, soak_checks};
