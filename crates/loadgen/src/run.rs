//! One scenario on one server: what all of them share.

use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tidegate_core::QueueKey;
use tidegate_core::placement::bucket_of;

use crate::Error;
use crate::clock::ClockBounds;
use crate::cpu::{Meter, load_average};
use crate::http::Connection;
use crate::ledger::Ledger;
use crate::report::Report;
use crate::server::Server;
use crate::wire::{self, Requests};

/// A scenario under way.
pub(crate) struct Run<'a> {
    pub(crate) server: &'a Server,
    pub(crate) requests: Requests,
    pub(crate) ledger: RefCell<Ledger>,
    pub(crate) clocks: Cell<ClockBounds>,
    pub(crate) report: Report,
    /// Tells the queues of this run from those of others.
    tag: u32,
    queues: RefCell<Vec<String>>,
    is_quiet: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(scenario: &str, server: &'a Server, is_quiet: bool) -> Self {
        Self {
            server,
            requests: Requests::new(server),
            ledger: RefCell::new(Ledger::new()),
            clocks: Cell::new(ClockBounds::new()),
            report: Report {
                scenario: scenario.to_owned(),
                server: server.url.clone(),
                load: String::new(),
                parameters: std::collections::BTreeMap::new(),
                figures: Vec::new(),
                series: Vec::new(),
                problems: Vec::new(),
                remarks: Vec::new(),
                load_average: load_average(),
            },
            tag: rand::random(),
            queues: RefCell::new(Vec::new()),
            is_quiet,
        }
    }

    /// The name of a queue that nobody else uses.
    pub(crate) fn queue(&self, name: &str) -> String {
        let queue = format!("{name}-{:08x}", self.tag);
        self.queues.borrow_mut().push(queue.clone());
        queue
    }

    /// So many queues; one keeps its plain name.
    pub(crate) fn queues(&self, name: &str, count: usize) -> Vec<String> {
        (0..count.max(1))
            .map(|number| self.queue(&format!("{name}{number}")))
            .collect()
    }

    /// A queue that nobody else uses in the bucket of another one, on a server with so many buckets.
    pub(crate) fn queue_beside(
        &self,
        queue: &str,
        name: &str,
        buckets: u32,
    ) -> Result<String, Error> {
        let bucket = |queue: &str| {
            let key = QueueKey::try_from(format!("{}/{queue}", self.server.namespace).as_str());
            let key = key.map_err(|error| Error::Usage(error.to_string()))?;
            Ok::<_, Error>(bucket_of(&key, 0, buckets))
        };
        let wanted = bucket(queue)?;
        let names = (0..u32::MAX).map(|number| format!("{name}{number}"));
        for name in names {
            if bucket(&format!("{name}-{:08x}", self.tag))? == wanted {
                return Ok(self.queue(&name));
            }
        }
        Err(Error::Usage(format!(
            "no queue shares a bucket with {queue}"
        )))
    }

    /// Connections to the server.
    pub(crate) async fn connections(&self, count: usize) -> Result<Vec<Connection>, Error> {
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            connections.push(Connection::open(self.server.address, number).await?);
        }
        Ok(connections)
    }

    /// Begins to measure CPU time.
    pub(crate) fn meter(&self) -> Result<Meter, Error> {
        Meter::start(&self.server.processes)
    }

    /// How many jobs of a queue could be consumed now.
    pub(crate) async fn size(
        &self,
        connection: &mut Connection,
        queue: &str,
    ) -> Result<u64, Error> {
        let request = self.requests.bare("GET", &format!("{queue}/size"));
        let answer = connection.exchange(&request).await?;
        match answer.status {
            200 => wire::size(answer.body),
            status => Err(Error::unexpected("size", status, answer.body)),
        }
    }

    /// Shows how far a step is: a bar on a terminal, a line elsewhere.
    pub(crate) fn progress(&self, what: &str, total: u64) -> ProgressBar {
        let scenario = &self.report.scenario;
        let bar = match self.is_quiet {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(total),
        };
        if !self.is_quiet && !std::io::stderr().is_terminal() {
            tell(&format!("{scenario}: {what}"));
        }
        let template = "{prefix}: {msg} {wide_bar} {pos}/{len} {per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_length(total);
        bar.with_prefix(scenario.clone())
            .with_message(what.to_owned())
    }

    /// Waits, and says for what.
    pub(crate) async fn pause(&self, what: &str, time: Duration) {
        let bar = self.progress(&format!("{what} for {:.0} s", time.as_secs_f64()), 0);
        tokio::time::sleep(time).await;
        bar.finish_and_clear();
    }

    /// Ends the run: whatever was published must have come back, and nothing may be left to consume.
    pub(crate) async fn finish(mut self) -> Result<Report, Error> {
        let mut connection = Connection::open(self.server.address, 0).await?;
        let queues = self.queues.take();
        for queue in &queues {
            let left = self.size(&mut connection, queue).await?;
            if left > 0 {
                let defect = format!("{left} jobs are still ready in queue {queue}");
                self.ledger.borrow_mut().defect(defect);
            }
        }
        let ledger = self.ledger.borrow();
        self.report.problems = ledger.problems();
        let counts = format!(
            "{} jobs published, {} delivered, {} too early",
            ledger.published_count(),
            ledger.delivered_count(),
            ledger.early_count()
        );
        self.report.remarks.push(counts);
        drop(ledger);
        Ok(self.report)
    }

    /// Makes sure that latenesses mean something, and says what they are.
    pub(crate) fn check_clocks(&mut self) {
        let clocks = self.clocks.get();
        if !clocks.may_agree() {
            let defect = format!("no lateness can be told: {}", clocks.shown());
            self.ledger.borrow_mut().defect(defect);
        }
        self.report.remarks.push(format!(
            "lateness = received - (time in the job's id + delay), up to 1 ms too large; {}",
            clocks.shown()
        ));
    }
}

#[allow(clippy::print_stderr, reason = "progress is for a person")]
fn tell(line: &str) {
    eprintln!("{line}");
}
