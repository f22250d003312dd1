//! What a consumer holds while it waits, and what is undone when it goes.

use std::sync::Arc;

use metrics::Gauge;
use tidegate_store::Claim;
use tokio::time::{Instant, timeout_at};

use super::line::Line;
use super::seat::{News, Seat};
use super::slow::SlowServers;
use super::{Delivery, Inner, RoundFailed, Source};

/// A consumer's place: its seat, and the lines that the seat is in. Dropping it gives everything up.
pub(super) struct Place<'a> {
    inner: &'a Arc<Inner>,
    pub(super) seat: Arc<Seat>,
    lines: Vec<(Source, u64)>,
    /// A look in order was answered.
    pub(super) is_informed: bool,
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
            lines: Vec::with_capacity(1),
            is_informed: false,
            waiting,
        }
    }

    /// Looks into the sources one after the other, until jobs come: that is the strict order of queues. A look into
    /// the last one is waited for until `deadline`, if there is one. The seat stays in the lines of sources that are
    /// not waited for: the last look failed, or slow servers have had their time, see [`SlowServers`].
    pub(super) async fn look_in_order(
        &mut self,
        sources: &[Source],
        deadline: Option<Instant>,
    ) -> News {
        let mut slow = SlowServers::new();
        for (number, source) in sources.iter().enumerate() {
            let is_waited_for = !self.is_failing(source) && !slow.are_over(self.inner, source);
            let Some(ticket) = self.enter(source) else {
                return News::Closed;
            };
            let tickets = [ticket];
            let is_last = number + 1 == sources.len();
            let looked = if is_waited_for {
                let first_round = self.seat.news(&tickets);
                match deadline {
                    Some(deadline) if is_last => timeout_at(deadline, first_round).await.ok(),
                    _ => slow.wait(self.inner, source, first_round).await,
                }
            } else {
                self.seat.look(&tickets)
            };
            match looked {
                Some(News::NothingYet) => {
                    self.is_informed = true;
                    if deadline.is_none() {
                        self.leave(ticket);
                    }
                }
                None => {}
                Some(news) => return news,
            }
        }
        News::NothingYet
    }

    /// Whether it is in a line. Without patience it leaves a line as soon as the look there is answered.
    pub(super) const fn is_in_line(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Waits until all lines that it is in have had their first round, or a job came.
    pub(super) async fn first_rounds(&self) -> News {
        let tickets: Vec<u64> = self.lines.iter().map(|(_, ticket)| *ticket).collect();
        self.seat.news(&tickets).await
    }

    /// Puts the seat at the end of the line of a source. The ticket, unless the lines are closed.
    fn enter(&mut self, source: &Source) -> Option<u64> {
        let mut lines = self.inner.lock();
        if lines.closed {
            self.seat.close();
            return None;
        }
        let ticket = lines.next_ticket;
        lines.next_ticket += 1;
        let line = lines.by_source.entry(source.clone()).or_default();
        let start = line.enter(ticket, Arc::clone(&self.seat));
        drop(lines);
        self.lines.push((source.clone(), ticket));
        if start {
            self.inner.spawn_serving(source.clone());
        }
        Some(ticket)
    }

    /// Leaves the line that was entered with this ticket; the seat is kept.
    fn leave(&mut self, ticket: u64) {
        self.leave_lines(|entered| entered == ticket);
    }

    fn leave_lines(&mut self, is_left: impl Fn(u64) -> bool) {
        if self.lines.is_empty() {
            return;
        }
        let mut lines = self.inner.lock();
        for (source, ticket) in self.lines.extract_if(.., |(_, ticket)| is_left(*ticket)) {
            let Some(line) = lines.by_source.get_mut(&source) else {
                continue;
            };
            line.leave(ticket);
            if line.is_over() {
                lines.by_source.remove(&source);
            }
        }
    }

    /// Whether the last call for each lane of this source failed.
    fn is_failing(&self, source: &Source) -> bool {
        let lines = self.inner.lock();
        let line = lines.by_source.get(source);
        line.is_some_and(Line::has_failed_everywhere)
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
        self.leave_lines(|_| true);
        if let Some(haul) = self.seat.leave() {
            let jobs = haul.slips();
            self.inner.give_back(haul.source, None, jobs);
        }
        if let Some(waiting) = self.waiting {
            waiting.decrement(1.0);
        }
    }
}
