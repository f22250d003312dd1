use tidegate_core::SlotWidth;

use super::*;

const LIBRARY: &str = "-- library: for all.\n\nlocal a, b = 1, f()\n\nlocal c\n\n-- Uses b.\nlocal function first()\n  return a \
                       -- a\nend\n\nlocal function second()\n  return first('first')\nend\n";
const FIRST: &str = "local a, b = 1, f()\nlocal function first()\n  return a\nend\n";

fn assembled(script: &str) -> String {
    let text = assemble_with(&[LIBRARY], &format!("#!lua\n{script}"));
    text.strip_prefix("#!lua\n")
        .unwrap()
        .trim_start()
        .to_owned()
}

#[test]
fn a_script_gets_the_blocks_that_it_uses_directly_and_indirectly() {
    assert_eq!(assembled("return 1"), "return 1");
    assert_eq!(assembled("return b"), "local a, b = 1, f()\nreturn b");
    let other = "-- second\nreturn abc, c2, firstly";
    assert_eq!(assembled(other), "return abc, c2, firstly");
    assert_eq!(
        assembled("return first()"),
        format!("{FIRST}return first()")
    );
    let second = "local function second()\n  return first('first')\nend\n";
    assert_eq!(
        assembled("return second()"),
        format!("{FIRST}{second}return second()")
    );
}

#[test]
fn functions_that_are_called_rarely_are_defined_by_their_first_call() {
    let script = "-- Rarely calls: first, others\nif b then return second(), t.first, 'first' end";
    let expected = "local rarely, rarely_called\n\
        local a, b = 1, f()\n\
        local function second()\n  return rarely().first('first')\nend\n\
        rarely = function()\nif not rarely_called then\n\
        local function first()\n  return a\nend\n\
        rarely_called = { first = first }\nend\nreturn rarely_called\nend\n\
        if b then return second(), t.first, 'first' end";
    assert_eq!(assembled(script), expected);
}

#[test]
fn what_only_rare_functions_use_is_defined_with_them() {
    let script = "-- Rarely calls: second\nreturn second()";
    let expected = format!(
        "local rarely, rarely_called\n\nrarely = function()\nif not rarely_called then\n{FIRST}local function \
         second()\n  return first('first')\nend\nrarely_called = {{ second = second }}\nend\nreturn \
         rarely_called\nend\nreturn rarely().second()"
    );
    assert_eq!(
        assemble_with(&[LIBRARY], &format!("#!lua\n{script}")),
        format!("#!lua\n{expected}")
    );
}

#[test]
fn constants_are_replaced_by_their_values() {
    let code = "local WIDTH = 65536\nlocal A, TEXT = 2, '>I4'\nlocal FAR = 4 * WIDTH\nlocal TABLE = { A }\nlocal x = \
                A\nreturn FAR, t.A, 'A' .. TEXT";
    let expected = "local TABLE = { 2 }\nlocal x = 2\nreturn (4 * 500), t.A, 'A' .. '>I4'";
    assert_eq!(
        constants::replaced_by_values(code, ("WIDTH", 500)),
        expected
    );
}

#[test]
fn the_slot_width_is_that_of_the_deployment() {
    let line = format!("local SLOT_MS = {}\n", SlotWidth::DEFAULT_MS);
    assert_eq!(SHARED.join("\n").matches(&line).count(), 1);
    let narrow = assemble("#!lua\nreturn LEAD_MS", SlotWidth::new(500).unwrap());
    assert_eq!(narrow.lines().last(), Some("return 500"), "{narrow}");
}

#[test]
fn names_of_rare_functions_are_those_of_functions() {
    let shared = SHARED.join("\n");
    let scripts = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua")).unwrap();
    for script in scripts {
        let file = std::fs::read_to_string(script.unwrap().path()).unwrap();
        for name in rare::rarely_called(&file) {
            let definition = format!("local function {name}(");
            assert_eq!(shared.matches(&definition).count(), 1, "{name}");
        }
    }
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
    let assemble = |file| assemble(file, SlotWidth::default());
    let lease = assemble(include_str!("../../../../lua/lease_acquire.lua"));
    assert!(!lease.contains("function"));
    let publish = assemble(include_str!("../../../../lua/publish.lua"));
    assert!(publish.contains("function settle") && !publish.contains("function read_ahead"));
}

#[test]
fn figures_of_registrations_are_those_of_the_store() {
    use crate::waiter_id::{ID_BYTES, PERIOD_MS};
    let line = format!("local ID_BYTES, PERIOD_MS = {ID_BYTES}, {PERIOD_MS}\n");
    assert_eq!(SHARED.join("\n").matches(&line).count(), 1, "{line}");
}
