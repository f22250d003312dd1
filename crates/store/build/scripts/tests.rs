use std::io;

use super::*;

const FIRST: &str = "local a, b = 1, f()\nlocal function first()\n  return a\nend\n";

fn read(name: &str) -> io::Result<String> {
    let file = match name {
        "base" => {
            "-- base\n\nlocal a, b = 1, f()\n\nlocal c\n\n-- Uses b.\nlocal function first()\n  return a -- a\nend\n"
        }
        "more" => {
            "-- more\n--- include base\n\nlocal function second()\n  return first('second')\nend\n\nlocal function third()\n  \
                   return rarely().first()\nend\n"
        }
        script => return Ok(format!("#!lua\n--- include more, base\n{script}\n")),
    };
    Ok(file.to_owned())
}

fn text(script: &str) -> String {
    let text = script_text(script, &read).unwrap();
    text.strip_prefix("#!lua\n").unwrap().trim().to_owned()
}

#[test]
fn a_script_gets_the_blocks_that_it_uses_directly_and_indirectly() {
    assert_eq!(text("return 1"), "return 1");
    assert_eq!(text("return x..b"), "local a, b = 1, f()\nreturn x..b");
    let others = "return abc, c2, firstly, t.first, 'first'";
    assert_eq!(text(&format!("-- second\n{others}")), others);
    assert_eq!(text("return first()"), format!("{FIRST}return first()"));
    let second = "local function second()\n  return first('second')\nend\n";
    assert_eq!(
        text("return second()"),
        format!("{FIRST}{second}return second()")
    );
}

#[test]
fn functions_that_are_called_rarely_are_defined_by_their_first_call() {
    let expected = "local rarely, rare\n\
        local a, b = 1, f()\n\
        rarely = function()\nif not rare then\n\
        local function first()\n  return a\nend\n\
        local function second()\n  return first('second')\nend\n\
        rare = { second = second }\nend\nreturn rare\nend\n\
        if b then return rarely().second() end";
    assert_eq!(text("if b then return rarely().second() end"), expected);
}

#[test]
fn a_function_that_is_called_rarely_may_call_others_rarely() {
    let text = text("return rarely().third()");
    let table = "\nrare = { first = first, third = third }\n";
    assert!(text.contains(table), "{text}");
    assert!(text.ends_with("return rarely().third()"), "{text}");
}

#[test]
fn constants_are_replaced_by_their_values() {
    let code = "local SLOT_MS = 65536\nlocal A, TEXT = 2, '>I4'\nlocal FAR = 4 * SLOT_MS\nlocal TABLE = { A }\nlocal x = \
                A\nreturn FAR, t.A, 'A' .. TEXT";
    let expected = "local TABLE = { 2 }\nlocal x = 2\nreturn (4 * SLOT_MS), t.A, 'A' .. '>I4'";
    assert_eq!(constants::replaced_by_values(code), expected);
}
