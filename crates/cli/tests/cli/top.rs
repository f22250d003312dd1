//! `tidegate top` in a terminal, and without one.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;
use tidegate_testkit::{Stack, eventually};

use super::command_line::CommandLine;
use super::{LIMIT, SERVER};

const ROWS: u16 = 24;
const COLUMNS: u16 = 120;

/// A terminal with a program in it.
struct Terminal {
    keyboard: File,
    /// The other end, whose settings the program changes.
    line: File,
    screen: Arc<Mutex<vt100::Parser>>,
    child: Child,
    settings: Termios,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let line = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&line, size).unwrap();
        let settings = tcgetattr(&line).unwrap();
        let line = File::from(line);
        let end = || line.try_clone().unwrap();
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let (mut output, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..read]);
            }
        });
        Self {
            keyboard,
            line,
            screen,
            child,
            settings,
        }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Presses keys, and waits until the screen is as expected.
    async fn press(&mut self, keys: &str, what: &str, is_right: impl Fn(&str) -> bool) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        eventually(what, LIMIT, async || {
            let text = self.text();
            if is_right(&text) { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// Waits for the end of the program, which leaves the terminal as it was. Returns the exit code.
    async fn end(mut self) -> Option<i32> {
        let status = eventually("the program ends", LIMIT, async || {
            self.child.try_wait().unwrap().ok_or("it runs")
        })
        .await;
        eventually("the screen is the former one", LIMIT, async || {
            let parser = self.screen.lock().unwrap();
            let screen = parser.screen();
            match screen.alternate_screen() || screen.hide_cursor() {
                true => Err(screen.contents()),
                false => Ok(()),
            }
        })
        .await;
        let settings = tcgetattr(&self.line).unwrap();
        assert_eq!(settings.local_modes, self.settings.local_modes);
        assert_eq!(settings.input_modes, self.settings.input_modes);
        status.code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The position of a text on the screen; later than all others if it is not there.
fn position(screen: &str, text: &str) -> usize {
    screen.find(text).unwrap_or(usize::MAX)
}

#[tokio::test]
async fn queues_are_shown_live_sorted_and_selected() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "top").await;
    for queue in ["alpha", "beta", "beta"] {
        cli.out(&["publish", queue, "{}"]);
    }
    let mut terminal = Terminal::start(cli.command(&["top", "--interval", "100ms"]));
    terminal
        .press("", "both queues are shown", |screen| {
            screen.contains("top at http://")
                && screen.contains("2 queues")
                && position(screen, "alpha") < position(screen, "beta")
                && screen.contains("q quit")
        })
        .await;
    terminal
        .press("r", "they are sorted by ready jobs", |screen| {
            position(screen, "beta") < position(screen, "alpha")
        })
        .await;
    terminal
        .press("\u{1b}[B\u{1b}[B", "the second one is selected", |screen| {
            screen.contains("> alpha")
        })
        .await;
    terminal
        .press("n", "the selection stays on its queue", |screen| {
            position(screen, "> alpha") < position(screen, "beta")
        })
        .await;
    cli.out(&["queue", "pause", "beta"]);
    cli.out(&["queue", "close", "beta"]);
    for _ in 0..7 {
        cli.out(&["publish", "alpha", "{}", "--delay", "1h"]);
    }
    terminal
        .press("", "changes are shown", |screen| {
            let row = screen.lines().find(|line| line.contains("alpha"));
            let has_seven = row.is_some_and(|row| row.split_whitespace().any(|word| word == "7"));
            has_seven && screen.contains("paused, closed")
        })
        .await;
    terminal.press("q", "it ends", |_| true).await;
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test]
async fn ctrl_c_and_signals_restore_the_terminal() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "ended").await;
    let mut by_key = Terminal::start(cli.command(&["top"]));
    by_key
        .press("", "it has started", |screen| screen.contains("q quit"))
        .await;
    by_key.press("\u{3}", "it ends", |_| true).await;
    assert_eq!(by_key.end().await, Some(0));
    for signal in ["-TERM", "-HUP"] {
        let mut by_signal = Terminal::start(cli.command(&["top"]));
        by_signal
            .press("", "it has started", |screen| screen.contains("q quit"))
            .await;
        let pid = by_signal.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(by_signal.end().await, Some(0));
    }
}

#[tokio::test]
async fn an_api_that_is_gone_is_shown_and_waited_for() {
    let stack = Stack::builder().start().await;
    let cli = CommandLine::connected(&stack, "gone").await;
    cli.out(&["publish", "alpha", "{}"]);
    let mut terminal = Terminal::start(cli.command(&["top", "--interval", "50ms"]));
    terminal
        .press("", "it has started", |screen| screen.contains("alpha"))
        .await;
    stack.api(0).kill();
    let killed_at = Instant::now();
    terminal
        .press("", "the error is shown, and the last numbers", |screen| {
            screen.contains("retrying") && screen.contains("alpha")
        })
        .await;
    // Not after the repetitions of a request.
    assert!(killed_at.elapsed() < Duration::from_secs(5));
    stack.api(0).restart().await;
    terminal
        .press("", "it continues", |screen| !screen.contains("retrying"))
        .await;
    terminal.press("q", "it ends", |_| true).await;
    assert_eq!(terminal.end().await, Some(0));
    stack.finish().await;
}

#[tokio::test]
async fn without_a_terminal_one_table_is_printed() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "once").await;
    for queue in ["a", "b", "b"] {
        cli.out(&["publish", queue, "{}"]);
    }
    cli.out(&["queue", "pause", "a"]);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let table = eventually("the pause is in effect", LIMIT, async || {
        let table = cli.out(&["top", "--once", "--sort", "ready"]);
        if table.contains("paused") {
            Ok(table)
        } else {
            Err(table)
        }
    })
    .await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("queue  dead  delayed"), "{table}");
    assert!(
        lines[1].starts_with("b ") && lines[2].ends_with("paused"),
        "{table}"
    );
    assert_eq!(cli.out(&["top", "--sort", "ready"]), table);
    let views = cli.json(&["top"]);
    assert_eq!(
        views[1]["jobs"],
        json!({"delayed": 0, "ready": 2, "leased": 0, "dead": 0, "done": 0})
    );
    // In a terminal, too.
    let terminal = Terminal::start(cli.command(&["top", "--once"]));
    eventually("the table is printed", LIMIT, async || {
        let text = terminal.text();
        if text.contains("paused") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    assert_eq!(terminal.end().await, Some(0));
}
