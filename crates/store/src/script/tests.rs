use std::fs;

use tidegate_core::SlotWidth;
use tidegate_core::codec::{HEADER_BYTES, LAYOUT_VERSION};
use tidegate_core::layout::{BEFORE_FIRST_NUMBER, CHUNK_BYTES, CHUNK_JOBS, FIELD_BYTES};

use crate::waiter_id::{ID_BYTES, PERIOD_MS};

const LUA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua");
const LEASE: &str = include_str!(concat!(env!("OUT_DIR"), "/lease_acquire.lua"));
const PUBLISH: &str = include_str!(concat!(env!("OUT_DIR"), "/publish.lua"));

fn files() -> Vec<String> {
    let files = fs::read_dir(LUA).unwrap();
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn figures_of_the_scripts_are_those_of_rust() {
    let files = files().join("\n");
    for line in [
        format!("local SLOT_MS = {}", SlotWidth::DEFAULT_MS),
        format!("local BEFORE_FIRST = {BEFORE_FIRST_NUMBER}"),
        format!(
            "local CHUNK, CHUNK_BYTES, FIELD_BYTES = {CHUNK_JOBS}, {CHUNK_BYTES}, {FIELD_BYTES}"
        ),
        format!(
            "local VERSION, HEADER, HEADER_BYTES = {LAYOUT_VERSION}, '>BBHHI4I4I6I6I6H', {HEADER_BYTES}"
        ),
        format!("local ID_BYTES, PERIOD_MS = {ID_BYTES}, {PERIOD_MS}"),
    ] {
        assert_eq!(
            files.lines().filter(|found| *found == line).count(),
            1,
            "{line}"
        );
    }
}

#[test]
fn functions_that_are_called_rarely_exist() {
    let files = files().join("\n");
    for call in files.split("rarely().").skip(1) {
        let name = call.split('(').next().unwrap_or_default();
        let is_prose = name == "name";
        let definition = format!("local function {name}(");
        assert_eq!(
            files.matches(&definition).count(),
            usize::from(!is_prose),
            "{name}"
        );
    }
}

#[test]
fn scripts_that_change_no_job_get_no_code_for_it() {
    assert!(!LEASE.contains("function"));
    assert!(PUBLISH.contains("function settle") && !PUBLISH.contains("function take_by_turns"));
}

#[test]
fn the_slot_width_is_that_of_the_deployment() {
    let script = super::LazyScript::new("test", "#!lua\nreturn SLOT_MS\n");
    let hashes = [500, 1000].map(|ms| script.of(SlotWidth::new(ms).unwrap()).hash().to_owned());
    let expected = redis::Script::new("#!lua\nreturn 500\n");
    assert_eq!(hashes[0], expected.get_hash());
    assert_ne!(hashes[0], hashes[1]);
}
