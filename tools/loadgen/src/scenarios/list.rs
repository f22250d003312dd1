//! The time that lists of jobs take, and the delay that they cause in other queues.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join;

use super::dead_jobs::make_dead;
use super::pending_jobs::PendingKind;
use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::job_stream::JobStream;
use crate::job_tracker::DeliveredJob;
use crate::load_clients::{FillOptions, fill, record_latency};
use crate::report::{Goal, Latencies, latencies};
use crate::run::ScenarioRun;
use crate::wire::native;

/// Shares of the listed jobs, in percent, that are ready and dead. The others are delayed.
const READY_PERCENT: u64 = 30;
const DEAD_PERCENT: u64 = 20;
const STATES: [&str; 5] = ["delayed", "ready", "leased", "dead", "done"];
const PAGE_GOALS: [(f64, f64); 1] = [(0.99, 50.0)];
/// How much later the jobs of another queue may be while a list runs: p99, in ms.
const BESIDE_GOAL: Goal = Goal::AtMost(2.0);
/// Delay of the jobs of the other queue, in seconds.
const DELAY: u32 = 1;

/// The flags of `list`.
#[derive(Debug, Clone, Args)]
pub struct ListOptions {
    /// Jobs in the queue that is listed: half of them delayed, 30 % ready, 20 % dead
    #[arg(long, default_value_t = 1_000_000)]
    jobs: u64,
    /// Times that each first page is read
    #[arg(long, default_value_t = 100)]
    reads: u32,
    /// Jobs of another queue that become due per second, without a list and beside one
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Seconds of each of these two measurements
    #[arg(long, default_value_t = 20)]
    seconds: u32,
}

impl ListOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = "closed loop, one connection that lists".to_owned();
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("rate", self.rate);
        let queue = self.fill(run).await?;
        self.first_pages(run, &queue).await?;
        self.filter_all(run, &queue).await?;
        let alone = self.lateness(run, "alone", None).await?;
        let beside = self.lateness(run, "beside a list", Some(&queue)).await?;
        let name = "lateness p99 beside a list - alone";
        let later = beside - alone;
        run.report.figure_with_goal(name, later, "ms", BESIDE_GOAL);
        run.check_clocks();
        Ok(())
    }

    /// Publishes the jobs that are listed. They stay in the server.
    async fn fill(&self, run: &ScenarioRun<'_>) -> Result<String, LoadgenError> {
        let queue = run.queue_prefix("listed");
        let queues = std::slice::from_ref(&queue);
        let (ready, dead) = (self.share(READY_PERCENT), self.share(DEAD_PERCENT));
        let filling = FillOptions {
            is_pending: true,
            ..FillOptions::new(queues, ready + dead)
        };
        fill(run, filling, || 0).await?;
        make_dead(run, &queue, dead).await?;
        let filling = FillOptions {
            is_pending: true,
            ..FillOptions::new(queues, self.jobs - ready - dead)
        };
        fill(run, filling, PendingKind::default().random_delay()).await?;
        Ok(queue)
    }

    const fn share(&self, percent: u64) -> u64 {
        self.jobs * percent / 100
    }

    /// Reads the first page of each state.
    async fn first_pages(
        &self,
        run: &mut ScenarioRun<'_>,
        queue: &str,
    ) -> Result<(), LoadgenError> {
        let mut connection = HttpConnection::open(run.server.address, 0).await?;
        for state in STATES {
            let what = format!("first page of {state} jobs");
            let bar = run.progress(&what, 0);
            let times = RefCell::new(latencies());
            for _ in 0..self.reads {
                let begin = Instant::now();
                read_page(run, &mut connection, queue, &format!("state={state}")).await?;
                record_latency(&times, begin);
            }
            bar.finish_and_clear();
            run.report.latency(&what, &times.into_inner(), &PAGE_GOALS);
        }
        Ok(())
    }

    /// Looks at all jobs once, with a filter that none of them matches.
    async fn filter_all(&self, run: &mut ScenarioRun<'_>, queue: &str) -> Result<(), LoadgenError> {
        let mut redis = run.server.redis("list")?;
        let bar = run.progress("looking at all jobs", 0);
        let before = redis.script_calls()?;
        let (pages, begin) = (RefCell::new(latencies()), Instant::now());
        walk(run, queue, &pages, || false).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let after = redis.script_calls()?;
        bar.finish_and_clear();
        let (calls, pages) = (after.calls - before.calls, pages.into_inner());
        let report = &mut run.report;
        report.figure("filter: all jobs", seconds, "s");
        report.figure("filter: pages", pages.len() as f64, "");
        report.latency("filter: page", &pages, &[]);
        report.figure("filter: calls of scripts", calls, "");
        let mean = (after.microseconds - before.microseconds) / calls;
        report.figure("filter: mean call", mean, "µs");
        Ok(())
    }

    /// Measures how late the jobs of another queue are. If a queue is given, it is listed without a pause meanwhile.
    /// Returns the p99 in ms.
    async fn lateness(
        &self,
        run: &mut ScenarioRun<'_>,
        what: &str,
        listed: Option<&str>,
    ) -> Result<f64, LoadgenError> {
        let queue = run.queue("beside");
        let stream = JobStream {
            queue: &queue,
            rate: self.rate,
            length: Duration::from_secs(self.seconds.into()),
            delay: DELAY,
        };
        let late = RefCell::new(latencies());
        let is_over = Cell::new(false);
        let bar = run.progress(&format!("{what} for {} s", self.seconds), 0);
        let here = &*run;
        let streaming = async {
            let note = |job: &DeliveredJob| late.borrow_mut().saturating_record(job.lateness_us());
            stream.run(here, note).await?;
            is_over.set(true);
            Ok::<_, LoadgenError>(())
        };
        let listing = async {
            let pages = RefCell::new(latencies());
            while let (Some(queue), false) = (listed, is_over.get()) {
                walk(here, queue, &pages, || is_over.get()).await?;
            }
            Ok(pages.into_inner().len())
        };
        let ((), pages) = try_join(streaming, listing).await?;
        bar.finish_and_clear();
        let late = late.into_inner();
        run.report.latency(&format!("{what}: lateness"), &late, &[]);
        if listed.is_some() {
            run.report
                .figure(format!("{what}: pages"), pages as f64, "");
        }
        Ok(late.value_at_quantile(0.99) as f64 / 1000.0)
    }
}

/// Reads a list to its end, or until `is_over`, with a filter that no job matches. Records the time of each page.
async fn walk(
    run: &ScenarioRun<'_>,
    queue: &str,
    pages: &RefCell<Latencies>,
    is_over: impl Fn() -> bool,
) -> Result<(), LoadgenError> {
    let mut connection = HttpConnection::open(run.server.address, 0).await?;
    let mut cursor = String::new();
    loop {
        let begin = Instant::now();
        let parameters = format!("key_prefix=none{cursor}");
        let next = read_page(run, &mut connection, queue, &parameters).await?;
        record_latency(pages, begin);
        match next {
            Some(next) if !is_over() => cursor = format!("&cursor={next}"),
            _ => return Ok(()),
        }
    }
}

/// Reads a page. Returns the cursor of the next one.
async fn read_page(
    run: &ScenarioRun<'_>,
    connection: &mut HttpConnection,
    queue: &str,
    parameters: &str,
) -> Result<Option<String>, LoadgenError> {
    let mut request = Vec::new();
    let rest = format_args!("queues/{queue}/jobs?{parameters}");
    run.requests.write_without_body(&mut request, "GET", rest);
    let answer = connection.exchange(&request).await?;
    match answer.status {
        200 => native::next_page(answer.body),
        status => Err(LoadgenError::unexpected("list", status, answer.body)),
    }
}
