//! The text that scripts share, and the selection of its parts for each script.
//!
//! Redis runs the whole text of a script at each call: to define twenty unused functions takes longer than two
//! commands. So a script contains only the shared code that it uses. The shared text consists of blocks separated by
//! blank lines. A block is used if a name that it defines occurs in the script, or in a used block behind it.

use tidegate_core::SlotWidth;

/// The shared text of all scripts, of those that read jobs, and of those that change them. Each file uses those before it.
const SHARED: [&str; 5] = [
    include_str!("../../../lua/prelude.lua"),
    include_str!("../../../lua/records.lua"),
    include_str!("../../../lua/changes.lua"),
    include_str!("../../../lua/versions.lua"),
    include_str!("../../../lua/settle.lua"),
];

/// The line of the prelude that depends on the deployment.
const SLOT_WIDTH_LINE: &str = "local SLOT_MS = 65536\n";

/// The shared text that a script uses, in the order of the files, for a deployment with this slot width.
pub(crate) fn used_by(script: &str, slots: SlotWidth) -> String {
    let shared = SHARED.join("\n");
    let width = format!("local SLOT_MS = {}\n", slots.ms());
    used_of(&shared.replacen(SLOT_WIDTH_LINE, &width, 1), script)
}

fn used_of(shared: &str, script: &str) -> String {
    let mut user = code_of(script);
    let mut used = Vec::new();
    for block in shared.split("\n\n").collect::<Vec<_>>().into_iter().rev() {
        let mut names = block.lines().flat_map(names_defined_in);
        if names.any(|name| words_of(&user).any(|word| word == name)) {
            user.push_str(&code_of(block));
            used.push(block);
        }
    }
    used.reverse();
    used.join("\n\n")
}

/// The text without its comments.
fn code_of(text: &str) -> String {
    let code = |line: &str| line.split("--").next().unwrap_or_default().to_owned() + "\n";
    text.lines().map(code).collect()
}

fn words_of(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The names that a line defines for the whole script: `local function name(…)` or `local name, name = …`.
fn names_defined_in(line: &str) -> impl Iterator<Item = &str> {
    let defined = line.strip_prefix("local ").unwrap_or_default();
    let defined = defined.strip_prefix("function ").unwrap_or(defined);
    let names = defined.split(['=', '(']).next().unwrap_or_default();
    words_of(names).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "-- library: for all.\n\nlocal a, b = 1, 2\n\nlocal c\n\n-- Uses b.\nlocal function \
                           first()\n  return a\nend\n\nlocal function second()\n  return first()\nend\n";

    #[test]
    fn a_script_gets_the_blocks_that_it_uses_directly_and_indirectly() {
        let of = |script| used_of(LIBRARY, script);
        assert_eq!(of("return 1"), "");
        assert_eq!(of("return b"), "local a, b = 1, 2");
        assert_eq!(of("-- second\nreturn abc, c2, firstly"), "");
        let first = "local a, b = 1, 2\n\n-- Uses b.\nlocal function first()\n  return a\nend";
        assert_eq!(of("return first()"), first);
        let second = format!("{first}\n\nlocal function second()\n  return first()\nend\n");
        assert_eq!(of("return second()"), second);
    }

    #[test]
    fn the_slot_width_is_that_of_the_deployment() {
        let written_for = format!("local SLOT_MS = {}\n", SlotWidth::DEFAULT_MS);
        assert_eq!(written_for, SLOT_WIDTH_LINE);
        assert_eq!(SHARED.join("\n").matches(SLOT_WIDTH_LINE).count(), 1);
        let narrow = used_by("return SLOT_MS", SlotWidth::new(500).unwrap());
        assert!(narrow.contains("local SLOT_MS = 500\n"), "{narrow}");
    }

    #[test]
    fn figures_of_the_layout_are_those_of_core() {
        use tidegate_core::layout::{BEFORE_FIRST_NUMBER, CHUNK_BYTES, CHUNK_JOBS, FIELD_BYTES};
        let shared = SHARED.join("\n");
        for line in [
            format!("local BEFORE_FIRST = {BEFORE_FIRST_NUMBER}"),
            format!(
                "local CHUNK, CHUNK_BYTES, FIELD_BYTES = {CHUNK_JOBS}, {CHUNK_BYTES}, {FIELD_BYTES}"
            ),
        ] {
            assert!(shared.lines().any(|found| found == line), "{line}");
        }
        use tidegate_core::codec::{HEADER_BYTES, LAYOUT_VERSION};
        let header = format!(
            "local VERSION, HEADER, HEADER_BYTES = {LAYOUT_VERSION}, '>BBHHI4I4I6I6I6H', {HEADER_BYTES}"
        );
        assert!(shared.contains(&header), "{header}");
    }

    #[test]
    fn scripts_that_change_no_job_get_no_code_for_it() {
        let used_by = |script| used_by(script, SlotWidth::default());
        let lease = used_by(include_str!("../../../lua/lease_acquire.lua"));
        assert!(!lease.contains("function"));
        let publish = used_by(include_str!("../../../lua/publish.lua"));
        assert!(publish.contains("function settle") && !publish.contains("function read_ahead"));
    }
}
