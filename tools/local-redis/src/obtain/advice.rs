//! The command that installs a server, for the package manager of this machine.

use tidegate_local_program::command::is_on_path;

use crate::locate::SERVER_VARIABLE;

/// Package manager, command, and whether the command needs root.
const COMMANDS: [(&str, &str, bool); 6] = [
    (
        "apt-get",
        "apt-get update && apt-get install redis-server",
        true,
    ),
    ("dnf", "dnf install valkey", true),
    ("apk", "apk add valkey", true),
    ("pacman", "pacman -S valkey", true),
    ("zypper", "zypper install redis", true),
    ("brew", "brew install redis", false),
];

/// Returns the advice that ends the message of a failed search.
pub(crate) fn for_this_machine() -> String {
    let is_root = rustix::process::geteuid().is_root();
    advice_text(&is_on_path, is_root)
}

fn advice_text(has: &dyn Fn(&str) -> bool, is_root: bool) -> String {
    let or_named = format!(
        "or set {SERVER_VARIABLE} to the path of a redis-server or valkey-server, 7.0 or newer"
    );
    match COMMANDS.iter().find(|(manager, ..)| has(manager)) {
        None => format!("install Redis or Valkey\n{or_named}"),
        Some((_, command, needs_root)) if *needs_root && !is_root => {
            format!("run: {}\n{or_named}", with_sudo(command))
        }
        Some((_, command, _)) => format!("run: {command}\n{or_named}"),
    }
}

fn with_sudo(command: &str) -> String {
    command
        .split(" && ")
        .map(|one| format!("sudo {one}"))
        .collect::<Vec<_>>()
        .join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_line(manager: &str, is_root: bool) -> String {
        let text = advice_text(&|name| name == manager, is_root);
        text.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_command_is_for_the_package_manager_and_the_user() {
        assert_eq!(
            first_line("apt-get", true),
            "run: apt-get update && apt-get install redis-server"
        );
        assert_eq!(
            first_line("apt-get", false),
            "run: sudo apt-get update && sudo apt-get install redis-server"
        );
        assert_eq!(first_line("brew", false), "run: brew install redis");
        assert!(first_line("none", false).starts_with("install Redis or Valkey"));
    }
}
