//! A run of one scenario on one server.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tidegate_core::QueueKey;
use tidegate_core::placement::bucket_of;

use crate::clock::ClockBounds;
use crate::cpu::{CpuMeter, load_average};
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::job_tracker::JobTracker;
use crate::report::ScenarioReport;
use crate::server::TargetServer;
use crate::wire::request::RequestBuilder;

/// A scenario in progress.
pub(crate) struct ScenarioRun<'a> {
    pub(crate) server: &'a TargetServer,
    pub(crate) requests: RequestBuilder,
    pub(crate) jobs: RefCell<JobTracker>,
    pub(crate) clocks: Cell<ClockBounds>,
    pub(crate) report: ScenarioReport,
    /// Makes the queue names of this run unique.
    tag: u32,
    queues: RefCell<Vec<String>>,
    is_quiet: bool,
}

impl<'a> ScenarioRun<'a> {
    pub(crate) fn new(scenario: &str, server: &'a TargetServer, is_quiet: bool) -> Self {
        let mut run = Self {
            server,
            requests: RequestBuilder::new(server),
            jobs: RefCell::new(JobTracker::new()),
            clocks: Cell::new(ClockBounds::new()),
            report: ScenarioReport {
                scenario: scenario.to_owned(),
                server: server.url.clone(),
                load: String::new(),
                parameters: std::collections::BTreeMap::new(),
                figures: Vec::new(),
                problems: Vec::new(),
                remarks: Vec::new(),
                load_average: load_average(),
            },
            tag: rand::random(),
            queues: RefCell::new(Vec::new()),
            is_quiet,
        };
        run.report.parameter("wire", server.wire.name());
        run
    }

    /// Returns a unique queue name, and checks that queue at the end of the run.
    pub(crate) fn queue(&self, name: &str) -> String {
        let queue = format!("{name}-{:08x}", self.tag);
        self.queues.borrow_mut().push(queue.clone());
        queue
    }

    /// Returns `count` unique queue names, at least one.
    pub(crate) fn queues(&self, name: &str, count: usize) -> Vec<String> {
        (0..count.max(1))
            .map(|number| self.queue(&format!("{name}{number}")))
            .collect()
    }

    /// Returns a unique queue name in the bucket of another queue, which is given with its namespace, on a server with
    /// `buckets` buckets.
    pub(crate) fn queue_in_bucket_of(
        &self,
        other: &str,
        name: &str,
        buckets: u32,
    ) -> Result<String, LoadgenError> {
        let bucket = |queue: &str| {
            let key = QueueKey::try_from(queue);
            let key = key.map_err(|error| LoadgenError::Usage(error.to_string()))?;
            Ok::<_, LoadgenError>(bucket_of(&key, 0, buckets))
        };
        let wanted = bucket(other)?;
        let namespace = &self.server.namespace;
        let names = (0..u32::MAX).map(|number| format!("{name}{number}"));
        for name in names {
            if bucket(&format!("{namespace}/{name}-{:08x}", self.tag))? == wanted {
                return Ok(self.queue(&name));
            }
        }
        Err(LoadgenError::Usage(format!(
            "no queue shares a bucket with {other}"
        )))
    }

    /// The name of a queue with its namespace.
    pub(crate) fn full_name(&self, queue: &str) -> String {
        format!("{}/{queue}", self.server.namespace)
    }

    /// Returns a prefix for queue names that no other run uses. Such queues are not checked at the end of the run.
    pub(crate) fn queue_prefix(&self, name: &str) -> String {
        format!("{name}-{:08x}", self.tag)
    }

    /// Checks that queues have as many ready jobs as were published.
    pub(crate) async fn check_sizes(&self, queues: &[String]) -> Result<(), LoadgenError> {
        let mut connection = HttpConnection::open(self.server.address, 0).await?;
        let mut there = 0;
        for queue in queues {
            there += self.size(&mut connection, queue).await?;
        }
        let published = self.jobs.borrow().published_count();
        if there != published {
            let defect = format!("{published} jobs were published, but the queues have {there}");
            self.jobs.borrow_mut().record_defect(defect);
        }
        Ok(())
    }

    /// Opens `count` connections to the server.
    pub(crate) async fn connections(
        &self,
        count: usize,
    ) -> Result<Vec<HttpConnection>, LoadgenError> {
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            connections.push(HttpConnection::open(self.server.address, number).await?);
        }
        Ok(connections)
    }

    pub(crate) fn meter(&self) -> Result<CpuMeter, LoadgenError> {
        CpuMeter::start(&self.server.processes)
    }

    /// Returns the number of ready jobs of a queue.
    pub(crate) async fn size(
        &self,
        connection: &mut HttpConnection,
        queue: &str,
    ) -> Result<u64, LoadgenError> {
        let request = self.requests.size(queue);
        let answer = connection.exchange(&request).await?;
        match answer.status {
            200 => self.requests.wire.size(answer.body),
            status => Err(LoadgenError::unexpected("size", status, answer.body)),
        }
    }

    /// Shows the progress of a step: as a bar on a terminal, otherwise as one line.
    pub(crate) fn progress(&self, what: &str, total: u64) -> ProgressBar {
        let scenario = &self.report.scenario;
        let bar = match self.is_quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(total),
        };
        if !self.is_quiet && !std::io::stderr().is_terminal() {
            print_progress(&format!("{scenario}: {what}"));
        }
        let template = "{prefix}: {msg} {wide_bar} {pos}/{len} {per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_length(total);
        bar.with_prefix(scenario.clone())
            .with_message(what.to_owned())
    }

    /// Waits, and shows for what.
    pub(crate) async fn pause(&self, what: &str, time: Duration) {
        let bar = self.progress(&format!("{what} for {:.0} s", time.as_secs_f64()), 0);
        tokio::time::sleep(time).await;
        bar.finish_and_clear();
    }

    /// Ends the run. Checks that every job that became due was delivered, and that no queue has
    /// ready jobs.
    pub(crate) async fn finish(mut self) -> Result<ScenarioReport, LoadgenError> {
        let mut connection = HttpConnection::open(self.server.address, 0).await?;
        let queues = self.queues.take();
        for queue in &queues {
            let left = self.size(&mut connection, queue).await?;
            if left > 0 {
                let defect = format!("{left} jobs are still ready in queue {queue}");
                self.jobs.borrow_mut().record_defect(defect);
            }
        }
        let tracker = self.jobs.borrow();
        self.report.problems = tracker.problems();
        let counts = format!(
            "{} jobs published, {} delivered, {} too early",
            tracker.published_count(),
            tracker.delivered_count(),
            tracker.early_count()
        );
        self.report.remarks.push(counts);
        drop(tracker);
        Ok(self.report)
    }

    /// Checks that the clocks agree closely enough to measure lateness, and notes in the report how
    /// it is defined.
    pub(crate) fn check_clocks(&mut self) {
        let clocks = self.clocks.get();
        if !clocks.may_agree() {
            let defect = format!("lateness cannot be measured: {}", clocks.describe());
            self.jobs.borrow_mut().record_defect(defect);
        }
        self.report.remarks.push(format!(
            "lateness = received - (time in the job's id + delay), up to 1 ms too large; {}",
            clocks.describe()
        ));
    }
}

#[allow(clippy::print_stderr, reason = "progress output")]
fn print_progress(line: &str) {
    eprintln!("{line}");
}
