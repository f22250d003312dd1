//! The rows of the table, their order, and how fast their numbers change.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use clap::ValueEnum;
use tidegate::JobsByState;
use tidegate::api::queue::QueueView;

/// A column that the rows can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SortColumn {
    Name,
    Ready,
    Delayed,
    Leased,
    Dead,
    Done,
    /// How fast the number of ready jobs changes, up or down.
    Change,
}

/// By how much the numbers of a queue change each second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ChangePerSecond {
    pub(super) ready: f64,
    pub(super) delayed: f64,
    pub(super) dead: f64,
}

#[derive(Debug, Clone)]
pub(super) struct QueueRow {
    pub(super) view: QueueView,
    /// `None` after the first look.
    pub(super) change: Option<ChangePerSecond>,
}

/// All queues as they were at the last look.
#[derive(Debug)]
pub(super) struct TopRows {
    rows: Vec<QueueRow>,
    at: Instant,
    sort: SortColumn,
    /// The name of the selected queue, which stays selected when the order changes.
    selected: Option<String>,
}

impl SortColumn {
    /// The column of a key of the keyboard.
    pub(super) const fn of_key(key: char) -> Option<Self> {
        Some(match key {
            'n' => Self::Name,
            'r' => Self::Ready,
            'd' => Self::Delayed,
            'l' => Self::Leased,
            'x' => Self::Dead,
            'o' => Self::Done,
            'c' => Self::Change,
            _ => return None,
        })
    }

    /// Sorts names in ascending order, numbers in descending order.
    pub(super) fn sort(self, rows: &mut [QueueRow]) {
        rows.sort_by(|one, other| one.view.queue.as_str().cmp(other.view.queue.as_str()));
        let by = |rows: &mut [QueueRow], number: fn(&JobsByState) -> u64| {
            rows.sort_by_key(|row| Reverse(number(&row.view.jobs)));
        };
        match self {
            Self::Name => {}
            Self::Ready => by(rows, |jobs| jobs.ready),
            Self::Delayed => by(rows, |jobs| jobs.delayed),
            Self::Leased => by(rows, |jobs| jobs.leased),
            Self::Dead => by(rows, |jobs| jobs.dead),
            Self::Done => by(rows, |jobs| jobs.done),
            Self::Change => rows.sort_by(|one, other| other.speed().total_cmp(&one.speed())),
        }
    }
}

impl QueueRow {
    pub(super) const fn new(view: QueueView) -> Self {
        Self { view, change: None }
    }

    fn speed(&self) -> f64 {
        self.change.unwrap_or_default().ready.abs()
    }

    /// The state by its policy: paused, closed, both, or nothing.
    pub(super) const fn state(&self) -> &'static str {
        match (self.view.paused, self.view.closed) {
            (true, true) => "paused, closed",
            (true, false) => "paused",
            (false, true) => "closed",
            (false, false) => "",
        }
    }
}

impl TopRows {
    pub(super) fn new(queues: Vec<QueueView>, sort: SortColumn) -> Self {
        let mut rows: Vec<QueueRow> = queues.into_iter().map(QueueRow::new).collect();
        sort.sort(&mut rows);
        Self {
            rows,
            at: Instant::now(),
            sort,
            selected: None,
        }
    }

    pub(super) fn rows(&self) -> &[QueueRow] {
        &self.rows
    }

    pub(super) const fn sort(&self) -> SortColumn {
        self.sort
    }

    pub(super) fn sort_by(&mut self, column: SortColumn) {
        self.sort = column;
        column.sort(&mut self.rows);
    }

    /// Takes the counts of a later look.
    pub(super) fn update(&mut self, queues: Vec<QueueView>, at: Instant) {
        let seconds = at.duration_since(self.at).as_secs_f64();
        let old: HashMap<String, JobsByState> = self
            .rows
            .drain(..)
            .map(|row| (row.view.queue.to_string(), row.view.jobs))
            .collect();
        self.rows = queues
            .into_iter()
            .map(|view| {
                let before = old.get(view.queue.as_str()).copied().unwrap_or_default();
                let change = (seconds > 0.0).then(|| change(before, view.jobs, seconds));
                QueueRow { view, change }
            })
            .collect();
        self.at = at;
        self.sort.sort(&mut self.rows);
    }

    /// The position of the selected queue. One that is gone is not selected.
    pub(super) fn selected(&self) -> Option<usize> {
        let name = self.selected.as_deref()?;
        self.rows
            .iter()
            .position(|row| row.view.queue.as_str() == name)
    }

    /// Moves the selection by so many rows; it stays inside the table. Without a selection one row down or up selects
    /// the first row.
    pub(super) fn select_by(&mut self, rows: isize) {
        let position = match self.selected() {
            Some(position) => position.saturating_add_signed(rows),
            None => 0_usize.saturating_add_signed(rows.saturating_sub(1)),
        };
        let last = self.rows.len().saturating_sub(1);
        let row = self.rows.get(position.min(last));
        self.selected = row.map(|row| row.view.queue.to_string());
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a rate is rounded when it is shown"
)]
fn change(before: JobsByState, now: JobsByState, seconds: f64) -> ChangePerSecond {
    let rate = |before: u64, now: u64| (now as f64 - before as f64) / seconds;
    ChangePerSecond {
        ready: rate(before.ready, now.ready),
        delayed: rate(before.delayed, now.delayed),
        dead: rate(before.dead, now.dead),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue(name: &str, ready: u64, dead: u64) -> QueueView {
        QueueView {
            queue: name.parse().unwrap(),
            jobs: JobsByState {
                ready,
                dead,
                ..JobsByState::default()
            },
            paused: false,
            paused_until: None,
            closed: false,
        }
    }

    fn names(rows: &TopRows) -> Vec<&str> {
        let rows = rows.rows().iter();
        rows.map(|row| row.view.queue.as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_and_changes_are_by_second() {
        let mut rows = TopRows::new(vec![queue("b", 5, 0), queue("a", 1, 9)], SortColumn::Name);
        assert_eq!(names(&rows), ["a", "b"]);
        rows.sort_by(SortColumn::Ready);
        assert_eq!(names(&rows), ["b", "a"]);
        let later = rows.at + Duration::from_secs(2);
        rows.update(
            vec![queue("a", 11, 9), queue("b", 1, 0), queue("c", 4, 0)],
            later,
        );
        assert_eq!(names(&rows), ["a", "c", "b"]);
        let ready = |row: &QueueRow| row.change.unwrap().ready;
        let changes: Vec<f64> = rows.rows().iter().map(ready).collect();
        assert_eq!(changes, [5.0, 2.0, -2.0]);
        rows.sort_by(SortColumn::Change);
        assert_eq!(names(&rows), ["a", "b", "c"]);
    }

    #[test]
    fn the_selection_stays_on_its_queue_and_inside_the_table() {
        let mut rows = TopRows::new(vec![queue("a", 1, 0), queue("b", 5, 0)], SortColumn::Name);
        assert_eq!(rows.selected(), None);
        rows.select_by(isize::MAX);
        assert_eq!(rows.selected(), Some(1));
        rows.selected = None;
        rows.select_by(1);
        assert_eq!(rows.selected(), Some(0));
        rows.sort_by(SortColumn::Ready);
        assert_eq!(rows.selected(), Some(1));
        rows.select_by(7);
        assert_eq!(rows.selected(), Some(1));
        rows.select_by(-7);
        assert_eq!(rows.selected(), Some(0));
        let later = rows.at + Duration::from_secs(1);
        rows.update(vec![queue("a", 1, 0)], later);
        assert_eq!(rows.selected(), None);
        rows.update(Vec::new(), later);
        rows.select_by(1);
        assert_eq!(rows.selected(), None);
    }
}
