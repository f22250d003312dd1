//! Draws the table.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table, TableState};

use tidegate_core::visible_text::escape;

use super::rows::{QueueRow, SortColumn, TopRows};

const KEYS: &str =
    "q quit   ↑↓ select   sort: n name  r ready  d delayed  l leased  x dead  o done  c change";
/// The columns of numbers, and their order.
const NUMBERS: [(&str, Option<SortColumn>); 8] = [
    ("READY", Some(SortColumn::Ready)),
    ("/s", Some(SortColumn::Change)),
    ("DELAYED", Some(SortColumn::Delayed)),
    ("/s", None),
    ("LEASED", Some(SortColumn::Leased)),
    ("DEAD", Some(SortColumn::Dead)),
    ("/s", None),
    ("DONE", Some(SortColumn::Done)),
];
const NUMBER_WIDTH: u16 = 9;
const STATE_WIDTH: u16 = 14;

/// Draws the title, the table, and the keys; instead of the keys the error of the last look, if it failed.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    title: &str,
    rows: &TopRows,
    error: Option<&str>,
    state: &mut TableState,
) {
    let lines = [
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [top, middle, bottom] = Layout::vertical(lines).areas(frame.area());
    let count = rows.rows().len();
    let title = Line::from(format!("{title}   {count} queues")).style(Modifier::BOLD);
    frame.render_widget(title, top);
    state.select(rows.selected());
    frame.render_stateful_widget(table(rows), middle, state);
    let last = match error {
        None => Line::from(KEYS).style(Modifier::DIM),
        Some(error) => Line::from(escape(error)).style(Color::Red),
    };
    frame.render_widget(last, bottom);
}

fn table(rows: &TopRows) -> Table<'_> {
    let heading = |text: &'static str, sorted: bool| {
        let style = match sorted {
            true => Style::from(Modifier::BOLD | Modifier::UNDERLINED),
            false => Style::from(Modifier::BOLD),
        };
        Cell::from(text).style(style)
    };
    let numbers = NUMBERS.map(|(name, column)| {
        let is_sorted = column == Some(rows.sort());
        let style = match is_sorted {
            true => Style::from(Modifier::BOLD | Modifier::UNDERLINED),
            false => Style::from(Modifier::BOLD),
        };
        Cell::from(Text::from(name).right_aligned()).style(style)
    });
    let header = std::iter::once(heading("QUEUE", rows.sort() == SortColumn::Name))
        .chain(numbers)
        .chain(std::iter::once(heading("STATE", false)));
    let widths = std::iter::once(Constraint::Min(12))
        .chain(NUMBERS.map(|_| Constraint::Length(NUMBER_WIDTH)))
        .chain(std::iter::once(Constraint::Length(STATE_WIDTH)));
    Table::new(rows.rows().iter().map(row), widths)
        .header(Row::new(header))
        .row_highlight_style(Modifier::REVERSED)
        .highlight_symbol("> ")
}

fn row(queue: &QueueRow) -> Row<'_> {
    let jobs = queue.view.jobs;
    let number = |text: String| Cell::from(Text::from(text).right_aligned());
    let change = |rate: fn(&super::rows::ChangePerSecond) -> f64| {
        number(
            queue
                .change
                .as_ref()
                .map_or_else(String::new, |change| rate_text(rate(change))),
        )
    };
    let dead = match jobs.dead {
        0 => Style::default(),
        _ => Style::from(Color::Red),
    };
    Row::new([
        Cell::from(escape(queue.view.queue.as_str())),
        number(jobs.ready.to_string()),
        change(|change| change.ready),
        number(jobs.delayed.to_string()),
        change(|change| change.delayed),
        number(jobs.leased.to_string()),
        number(jobs.dead.to_string()).style(dead),
        change(|change| change.dead),
        number(jobs.done.to_string()),
        Cell::from(queue.state()).style(Color::Yellow),
    ])
}

/// A change with its sign; nothing if there was none.
fn rate_text(rate: f64) -> String {
    match rate.abs() {
        0.0 => String::new(),
        small if small < 10.0 => format!("{rate:+.1}"),
        _ => format!("{rate:+.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(rate_text(0.0), "");
        assert_eq!(rate_text(0.25), "+0.2");
        assert_eq!(rate_text(-3.0), "-3.0");
        assert_eq!(rate_text(12_345.6), "+12346");
    }
}
