//! The command that gives a user a server, by the package manager of the machine.

use crate::command::is_on_path;
use crate::locate::SERVER_VARIABLE;

/// Package manager, command, whether the command needs the rights of root.
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

/// The sentence that ends a failed search.
pub(crate) fn for_this_machine() -> String {
    let is_root = rustix::process::geteuid().is_root();
    sentence(&is_on_path, is_root)
}

fn sentence(has: &dyn Fn(&str) -> bool, is_root: bool) -> String {
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
        let text = sentence(&|name| name == manager, is_root);
        text.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_command_fits_the_machine() {
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
