//! The terminal: keys, signals, and when to draw.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;
use tidegate::api::queue::QueueView;
use tidegate::{Client, Error};
use tokio::sync::mpsc;

use super::rows::{SortColumn, TopRows};
use super::view::draw;
use crate::failure::CommandFailure;
use crate::signals::stopped;

/// How many rows a page has for the keys page up and page down.
const PAGE: isize = 20;

/// Restores the terminal when it is dropped. A panic does so, too, by a hook of ratatui.
struct TerminalGuard(DefaultTerminal);

impl TerminalGuard {
    fn start() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // Nothing is left to do if the terminal is gone.
        let _ = ratatui::try_restore();
    }
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
enum AfterKey {
    Draw,
    Quit,
}

/// Shows the rows until the user ends it, or a signal does.
///
/// # Errors
/// The terminal cannot be used.
pub(super) async fn run(
    client: Client,
    title: String,
    mut rows: TopRows,
    interval: Duration,
) -> Result<(), CommandFailure> {
    let failed = |error: io::Error| {
        CommandFailure::NotDone(format!("failed to use the terminal: {error}; try --once"))
    };
    let mut stopped = pin!(stopped()?);
    let mut looks = start_looking(client, interval);
    let mut terminal = TerminalGuard::start().map_err(failed)?;
    let mut events = read_events();
    let (mut error, mut state) = (None, TableState::default());
    loop {
        let drawing = terminal.0.draw(|frame| {
            draw(frame, &title, &rows, error.as_deref(), &mut state);
        });
        drawing.map_err(failed)?;
        tokio::select! {
            Some((look, at)) = looks.recv() => match look {
                Ok(queues) => {
                    error = None;
                    rows.update(queues, at);
                }
                Err(failure) => error = Some(format!("{failure}; retrying")),
            },
            event = events.recv() => match event {
                Some(Event::Key(key)) if handle(key, &mut rows) == AfterKey::Quit => return Ok(()),
                // A new size only needs a new drawing.
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(()),
            },
            () = &mut stopped => return Ok(()),
        }
    }
}

type Look = (Result<Vec<QueueView>, Error>, Instant);

/// Looks at all queues again and again, in a task: keys work while a request is in flight. Ends when the receiver is
/// dropped.
fn start_looking(client: Client, interval: Duration) -> mpsc::Receiver<Look> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(interval).await;
            let look = client.queues().await;
            if sender.send((look, Instant::now())).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads the keyboard in a thread, which ends with the process.
fn read_events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

fn handle(key: KeyEvent, rows: &mut TopRows) -> AfterKey {
    if key.kind == KeyEventKind::Release {
        return AfterKey::Draw;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return AfterKey::Quit;
        }
        KeyCode::Char('q') => return AfterKey::Quit,
        KeyCode::Up => rows.select_by(-1),
        KeyCode::Down => rows.select_by(1),
        KeyCode::PageUp => rows.select_by(-PAGE),
        KeyCode::PageDown => rows.select_by(PAGE),
        KeyCode::Home => rows.select_by(isize::MIN),
        KeyCode::End => rows.select_by(isize::MAX),
        KeyCode::Char(key) => {
            if let Some(column) = SortColumn::of_key(key) {
                rows.sort_by(column);
            }
        }
        _ => {}
    }
    AfterKey::Draw
}
