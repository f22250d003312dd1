use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::try_join_all;

use crate::Error;
use crate::clock::now_us;
use crate::crew::{Filling, drain, fill};
use crate::http::Connection;
use crate::ledger::Delivered;
use crate::report::{Goal, Latencies, Series, latencies};
use crate::run::Run;
use crate::stream::{STREAM_CONNECTIONS, Stream};

const GOAL: Goal = Goal::AtLeast(66_000.0);
const OTHER_GOALS: [(f64, f64); 1] = [(0.99, 50.0)];
/// Jobs a second due in each other queue.
const OTHER_RATE: f64 = 100.0;
/// How many seconds before and after the burst jobs are due there.
const OTHER_BEFORE: u64 = 2;
const OTHER_AFTER: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The flags of `burst`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Jobs that are due in the same second
    #[arg(long, default_value_t = 200_000)]
    jobs: u64,
    /// Queues that they are in; several numbers one after another
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    queues: Vec<usize>,
    /// Jobs a second that the server is trusted to take before the burst: decides how far ahead that is
    #[arg(long, default_value_t = 5000)]
    publish_rate: u64,
    /// Buckets of the deployment, to find a queue that shares one with the burst; 0 = look at no such queue
    #[arg(long, default_value_t = 256)]
    buckets: u32,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = format!(
            "all due in one second; other queues with {OTHER_RATE} due/s, {STREAM_CONNECTIONS} consumers each"
        );
        run.report.parameter("jobs", self.jobs);
        for queues in &self.queues {
            self.burst(run, *queues).await?;
        }
        run.check_clocks();
        Ok(())
    }

    async fn burst(&self, run: &mut Run<'_>, count: usize) -> Result<(), Error> {
        let queues = run.queues(&format!("burst-{count}-"), count);
        let mut others = vec![Other::new(
            "elsewhere",
            run.queue(&format!("other-{count}-")),
        )];
        if self.buckets > 0 {
            let name = format!("beside-{count}-");
            let beside = run.queue_beside(&queues[0], &name, self.buckets)?;
            others.push(Other::new("in the same bucket", beside));
        }
        let lead = self.jobs.div_ceil(self.publish_rate) + 2 + OTHER_BEFORE;
        let due_us = now_us() + lead * 1_000_000;
        // Created in a second, and due so many whole seconds later: due within one second from `due_us`.
        let delay =
            || u32::try_from((due_us - now_us().min(due_us)).div_ceil(1_000_000)).unwrap_or(1);
        fill(run, Filling::of(&queues, self.jobs), delay).await?;
        let other_begin_us = due_us - OTHER_BEFORE * 1_000_000;
        let left_us = other_begin_us.checked_sub(now_us());
        let left_us = left_us.ok_or_else(|| Error::TooSlow(format!(
            "the server took fewer than {} jobs a second: tell how many it takes with --publish-rate",
            self.publish_rate
        )))?;
        run.pause("waiting for the burst", Duration::from_micros(left_us))
            .await;

        let meter = run.meter()?;
        let here = &*run;
        let until_us = Cell::new(u64::MAX);
        let is_during = |job: &Delivered| (due_us..until_us.get()).contains(&job.due_us());
        let watching = async {
            let drained = watch(here, &queues, self.jobs, due_us).await;
            until_us.set(now_us());
            drained
        };
        let working = try_join_all(others.iter().map(|other| other.work(here, is_during)));
        let (drained, worked) = tokio::join!(watching, working);
        worked?;
        let drained = drained?;
        let usage = meter.read()?;
        drain(run, &queues).await?;
        self.tell(run, count, &drained, &others, &usage);
        Ok(())
    }

    fn tell(
        &self,
        run: &mut Run<'_>,
        count: usize,
        drained: &[(f64, f64)],
        others: &[Other],
        usage: &crate::cpu::Usage,
    ) {
        let report = &mut run.report;
        let seconds = drained.last().map_or(0.0, |(seconds, _)| *seconds);
        let jobs = self.jobs as f64;
        report.figure(
            format!("{count} queues: drained to ready after"),
            seconds,
            "s",
        );
        report.aimed(
            format!("{count} queues: drained to ready"),
            jobs / seconds,
            "jobs/s",
            GOAL,
        );
        for other in others {
            report.latency(
                &format!("{count} queues: lateness {}", other.place),
                &other.latenesses.borrow(),
                &OTHER_GOALS,
            );
        }
        report.cpu(&format!("{count} queues"), usage, jobs, jobs);
        report.series.push(Series {
            name: format!("burst {count} queues"),
            x: "seconds from the first due time".to_owned(),
            y: "jobs ready".to_owned(),
            points: drained.to_vec(),
        });
    }
}

/// Watches the jobs become ready: how many after how many seconds.
async fn watch(
    run: &Run<'_>,
    queues: &[String],
    jobs: u64,
    due_us: u64,
) -> Result<Vec<(f64, f64)>, Error> {
    let mut connection = Connection::open(run.server.address, 0).await?;
    tokio::time::sleep(Duration::from_micros(due_us.saturating_sub(now_us()))).await;
    let begin = Instant::now();
    let bar = run.progress("becoming ready", jobs);
    let mut seen = Vec::new();
    loop {
        let mut ready = 0;
        for queue in queues {
            ready += run.size(&mut connection, queue).await?;
        }
        seen.push((begin.elapsed().as_secs_f64(), ready as f64));
        bar.set_position(ready);
        if ready >= jobs {
            bar.finish_and_clear();
            return Ok(seen);
        }
        if begin.elapsed() > PATIENCE {
            return Err(Error::TooSlow(format!(
                "after {PATIENCE:?} only {ready} of {jobs} jobs are ready"
            )));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// A queue that has nothing to do with the burst: its jobs are due one second after they are published,
/// and consumed as they come.
struct Other {
    place: &'static str,
    queue: String,
    latenesses: RefCell<Latencies>,
}

impl Other {
    fn new(place: &'static str, queue: String) -> Self {
        Self {
            place,
            queue,
            latenesses: RefCell::new(latencies()),
        }
    }

    async fn work(
        &self,
        run: &Run<'_>,
        is_during: impl Fn(&Delivered) -> bool,
    ) -> Result<(), Error> {
        let stream = Stream {
            queue: &self.queue,
            rate: OTHER_RATE,
            length: Duration::from_secs(OTHER_BEFORE + OTHER_AFTER),
            delay: 1,
        };
        let note = |job: &Delivered| {
            if is_during(job) {
                let mut latenesses = self.latenesses.borrow_mut();
                latenesses.saturating_record(job.lateness_us());
            }
        };
        stream.run(run, note).await.map(drop)
    }
}
