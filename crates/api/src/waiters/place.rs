//! What a consumer holds while it waits, and what is undone when it goes.

use std::pin::pin;
use std::sync::Arc;

use metrics::Gauge;
use tidegate_store::Claim;
use tokio::time::{Instant, timeout_at};

use super::line::Line;
use super::seat::{News, Seat};
use super::{Delivery, Inner, RoundFailed, Source};

/// A consumer's place: its seat, and the lines that the seat is in. Dropping it gives everything up.
pub(super) struct Place<'a> {
    inner: &'a Arc<Inner>,
    pub(super) seat: Arc<Seat>,
    /// How many lines were entered, whether left since or not.
    pub(super) entered: usize,
    lines: Vec<(Source, u64)>,
    waiting: Option<&'a Gauge>,
}

impl<'a> Place<'a> {
    /// A place for a consumer that counts as waiting for the first of its sources.
    pub(super) fn new(inner: &'a Arc<Inner>, claim: Claim, first: Option<&Source>) -> Self {
        let pool = first.and_then(|source| inner.pools.get(&source.pool));
        let waiting = pool.map(|pool| &pool.waiting);
        if let Some(waiting) = waiting {
            waiting.increment(1.0);
        }
        Self {
            inner,
            seat: Arc::new(Seat::new(claim)),
            entered: 0,
            lines: Vec::with_capacity(1),
            waiting,
        }
    }

    /// Puts the seat at the end of the line of a source.
    pub(super) fn enter(&mut self, source: &Source) {
        let mut lines = self.inner.lock();
        if lines.closed {
            self.seat.close();
            return;
        }
        let ticket = lines.next_ticket;
        lines.next_ticket += 1;
        let line = lines.by_source.entry(source.clone()).or_default();
        let start = line.enter(ticket, Arc::clone(&self.seat));
        drop(lines);
        self.entered += 1;
        self.lines.push((source.clone(), ticket));
        if start {
            self.inner.spawn_serving(source.clone());
        }
    }

    /// Leaves all lines; the seat is kept.
    pub(super) fn leave_lines(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let mut lines = self.inner.lock();
        for (source, ticket) in self.lines.drain(..) {
            let Some(line) = lines.by_source.get_mut(&source) else {
                continue;
            };
            line.leave(ticket);
            if line.is_over() {
                lines.by_source.remove(&source);
            }
        }
    }

    /// Waits until the lines that were entered have had their first round, or a job came. At the deadline, which may
    /// come first where a server does not answer, it waits only if nothing is known of any line.
    pub(super) async fn first_look(&self, deadline: Instant) -> News {
        let mut news = pin!(self.seat.news(self.entered));
        match timeout_at(deadline, &mut news).await {
            Ok(news) => news,
            Err(_) if self.is_answered() => News::NothingYet,
            Err(_) => news.await,
        }
    }

    /// Whether the last call for a lane of this source failed.
    pub(super) fn is_failing(&self, source: &Source) -> bool {
        let lines = self.inner.lock();
        lines.by_source.get(source).is_some_and(Line::is_failing)
    }

    /// Whether the last call for one of its lines was answered, or it is in none.
    pub(super) fn is_answered(&self) -> bool {
        let lines = self.inner.lock();
        let mut own = self.lines.iter();
        let line = |source| lines.by_source.get(source).is_some_and(Line::is_answered);
        self.lines.is_empty() || own.any(|(source, _)| line(source))
    }

    /// Gives the place up for what was found at the seat.
    pub(super) fn leave_with(self, news: News) -> Result<Option<Delivery>, RoundFailed> {
        match news {
            News::Jobs(haul) => Ok(Some(Delivery::new(Arc::clone(self.inner), haul))),
            News::Failed => Err(RoundFailed),
            News::NothingYet | News::Closed => Ok(None),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave_lines();
        if let Some(haul) = self.seat.leave() {
            let jobs = haul.slips();
            self.inner.give_back(haul.source, jobs);
        }
        if let Some(waiting) = self.waiting {
            waiting.decrement(1.0);
        }
    }
}
