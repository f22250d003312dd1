//! The sessions of a page: blocks with commands behind a prompt, and the output of each.

const PROMPT: &str = "    $ tidegate ";

/// The commands of a page, without the name of the program, each with the lines behind it.
pub(crate) fn sessions(page: &'static str) -> Vec<(&'static str, String)> {
    let mut sessions: Vec<(&str, String)> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        if let Some(arguments) = line.strip_prefix(PROMPT) {
            sessions.push((arguments, String::new()));
            is_open = true;
        } else if !line.is_empty() && !line.starts_with("    ") {
            is_open = false;
        } else if let (true, Some((_, lines))) = (is_open, sessions.last_mut()) {
            lines.push_str(line.strip_prefix("    ").unwrap_or(line));
            lines.push('\n');
        }
    }
    sessions
}
