//! lmstfy files, and the expected settings under our keys.

use super::*;

const FILE: &str = r#"
Host = "0.0.0.0"
Port = 7777
AdminHost = "127.0.0.1"
AdminPort = 7778
LogLevel = "warning"
LogFormat = "json"
LogDir = "/var/log/lmstfy"
EnableAccessLog = true
TTLSecond = 3600
TriesNum = 3

[Accounts]
"test.user" = "change.me"

[AdminRedis]
Addr = "10.0.0.1:6379"

[Pool.default]
Addr = "10.0.0.1:6379"
"#;

const PLAIN: &str =
    "Host = \"127.0.0.1\"\nPort = 1\nAdminPort = 2\n[Pool.default]\nAddr = \"h:1\"\n";

#[track_caller]
fn values(text: &str) -> Table {
    translate(text).unwrap().values
}

#[track_caller]
fn error_of(text: &str) -> String {
    translate(text).err().unwrap()
}

#[test]
fn a_file_is_translated_to_our_keys() {
    let found = translate(FILE).unwrap();
    let expected: Table = r#"
listen = "0.0.0.0:7777"
admin_listen = "127.0.0.1:7778"
log = { level = "warn", format = "json", directory = "/var/log/lmstfy", access = true }
job = { ttl_seconds = 3600, tries = 3 }
accounts = { "test.user" = "change.me" }
pool = { default = { url = "redis://10.0.0.1:6379" } }
"#
    .parse()
    .unwrap();
    assert_eq!(found.values, expected);
    assert_eq!(found.remarks, [""; 0]);
}

#[test]
fn keys_are_case_insensitive_and_names_are_not() {
    let text = "HOST = \"::1\"\nport = 1\nadminport = 2\nttlsecond = 9\n\
                [POOL.default]\naddr = \"h:1\"\n[POOL.Other]\nADDR = \"h:2\"\n";
    let expected: Table = r#"
listen = "[::1]:1"
admin_listen = "127.0.0.1:2"
job = { ttl_seconds = 9 }
pool = { default = { url = "redis://h:1" }, Other = { url = "redis://h:2" } }
"#
    .parse()
    .unwrap();
    assert_eq!(values(text), expected);
    let message = error_of("Host = \"a\"\nhost = \"b\"\n");
    assert_eq!(
        message,
        "Host and host are the same key: remove one of them"
    );
}

#[test]
fn a_pool_behind_sentinels_has_its_keys() {
    let text = format!(
        "{PLAIN}[Pool.s]\nAddr = \"a:1, b:2,c:3\"\nMasterName = \"mymaster\"\nPassword = \"p\"\n\
         SentinelPassword = \"sp\"\nDB = 4\nMigrateTo = \"default\"\nPoolSize = 100\nVersion = \"2\"\n"
    );
    let found = translate(&text).unwrap();
    let expected: Table = r#"
sentinels = ["a:1", "b:2", "c:3"]
master_name = "mymaster"
password = "p"
sentinel_password = "sp"
database = 4
migrate_to = "default"
"#
    .parse()
    .unwrap();
    assert_eq!(found.values["pool"]["s"], Value::Table(expected));
    assert_eq!(
        found.remarks,
        [
            "Pool.s.PoolSize is ignored: one connection carries all calls",
            "Pool.s.Version is ignored: lmstfy skips such a pool, here it is used",
        ]
    );
}

#[test]
fn ignored_keys_are_reported_with_the_reason() {
    let text = format!(
        "Colour = \"blue\"\n{PLAIN}Retries = 3\n[AdminRedis]\nAddr = \"other:1\"\nPassword = \"hunter2\"\n"
    );
    let remarks = translate(&text).unwrap().remarks;
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].starts_with("Pool.default.Retries is ignored"));
    assert!(remarks[1].starts_with("Colour is ignored"));
    assert!(!remarks.concat().contains("hunter2"));
}

#[test]
fn tokens_are_kept_where_they_were_unless_that_is_the_default_pool() {
    let admin_store = |section: &str| {
        let values = values(&format!("{PLAIN}[AdminRedis]\n{section}"));
        values.get("admin_store").map(ToString::to_string)
    };
    assert_eq!(admin_store("Addr = \"h:1\"\nPassword = \"p\"\n"), None);
    // Another database of the same server has other data.
    let other = admin_store("Addr = \"h:1\"\nDB = 1\n").unwrap();
    assert_eq!(other, "{ database = 1, url = \"redis://h:1\" }");
    let other = admin_store("Addr = \"o:1\"\nPassword = \"p\"\n").unwrap();
    assert_eq!(other, "{ password = \"p\", url = \"redis://o:1\" }");
}

#[test]
fn a_daemon_takes_what_it_has_keys_for() {
    let found = translate(FILE)
        .unwrap()
        .keep_only(&["log.level", "log.format", "pool"], "tidegate-pumpd");
    let expected: Table = r#"
log = { level = "warn", format = "json" }
pool = { default = { url = "redis://10.0.0.1:6379" } }
"#
    .parse()
    .unwrap();
    assert_eq!(found.values, expected);
    assert_eq!(
        found.remarks,
        [
            "not used by tidegate-pumpd: accounts, admin_listen, job, listen, log.access, log.directory"
        ]
    );
}

#[test]
fn an_error_is_one_sentence_with_the_key() {
    for (text, message) in [
        ("", "Host is missing; lmstfy requires it too"),
        ("Host = \"\"", "Host is missing; lmstfy requires it too"),
        ("Host = 1", "Host must be a text in quotes"),
        (
            "Host = \"127.0.0.1\"",
            "Port is missing; lmstfy requires it too",
        ),
        (
            "Host = \"127.0.0.1\"\nPort = 99999",
            "Port must be a whole number from 0 to 65535",
        ),
        (
            "Host = \"127.0.0.1\"\nPort = \"1\"",
            "Port must be a whole number from 0 to 65535",
        ),
        (
            "Host = \"127.0.0.1\"\nPort = 1\nAdminPort = 2\n",
            "the table [Pool.default] is missing",
        ),
    ] {
        assert_eq!(error_of(text), message, "{text}");
    }
    for (line, message) in [
        ("LogLevel = \"loud\"", "LogLevel must be trace, debug, info"),
        (
            "TriesNum = 70000",
            "TriesNum must be a whole number from 0 to 65535",
        ),
        ("TTLSecond = -1", "TTLSecond must be a whole number"),
        (
            "EnableAccessLog = \"yes\"",
            "EnableAccessLog must be true or false",
        ),
        ("Accounts = \"hunter2\"", "Accounts must be a table"),
        ("AdminRedis = 1", "AdminRedis must be a table"),
        (
            "TTLSecond = 24 * 60 * 60 // 1 day",
            "line 1 (TTLSecond) is not TOML",
        ),
    ] {
        let found = error_of(&format!("{line}\n{PLAIN}"));
        assert!(found.starts_with(message), "{line}: {found}");
    }
    for (lines, message) in [
        ("Password = 1", "Pool.default.Password must be a text"),
        ("DB = -1", "Pool.default.DB must be a whole number"),
        ("[Pool.x]\nDB = 1", "Pool.x.Addr is missing"),
        (
            "[Accounts]\nops = [\"hunter2\"]",
            "Accounts.ops must be a text in quotes, the password",
        ),
    ] {
        let found = error_of(&format!("{PLAIN}{lines}\n"));
        assert!(found.starts_with(message), "{lines}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn a_host_may_be_a_name() {
    let text = PLAIN.replace("127.0.0.1", "localhost");
    let listen = values(&text)["listen"].to_string();
    assert!(
        listen == "\"127.0.0.1:1\"" || listen == "\"[::1]:1\"",
        "{listen}"
    );
    let message = error_of(&PLAIN.replace("127.0.0.1", "no host"));
    assert!(
        message.starts_with("Host: cannot resolve \"no host\""),
        "{message}"
    );
}
