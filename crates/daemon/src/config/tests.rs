//! Layers, errors in them, and printed settings.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::*;

const DEFAULTS: &str = "\
name = \"a\"
wait = \"1s\"  # 1ms to 1h
[log]
level = \"info\"  # reload
lines = 5  # 1 to 9
#[accounts]
#NAME = \"\"
#[pool.NAME]
#url = \"\"
#password = \"\"
";

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestSettings {
    name: String,
    #[serde(with = "tidegate_core::duration")]
    wait: Duration,
    log: Log,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    level: String,
    lines: u32,
}

struct TestSources {
    schema: Schema,
    file: Option<tempfile::NamedTempFile>,
    environment: Vec<(OsString, OsString)>,
    flags: Vec<(&'static str, String)>,
}

impl TestSources {
    fn empty() -> Self {
        Self::of(DEFAULTS)
    }

    fn of(defaults: &str) -> Self {
        Self {
            schema: Schema::new(defaults).unwrap(),
            file: None,
            environment: vec![],
            flags: vec![],
        }
    }

    fn file(mut self, text: &str) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        self.file = Some(file);
        self
    }

    fn variable(self, name: &str, value: &str) -> Self {
        self.raw_variable(name.as_bytes(), value.as_bytes())
    }

    fn raw_variable(mut self, name: &[u8], value: &[u8]) -> Self {
        let own = |bytes| OsStr::from_bytes(bytes).to_owned();
        self.environment.push((own(name), own(value)));
        self
    }

    fn flag(mut self, key: &'static str, value: &str) -> Self {
        self.flags.push((key, value.to_owned()));
        self
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            schema: &self.schema,
            foreign: None,
            file: self.file.as_ref().map(tempfile::NamedTempFile::path),
            env_prefix: "TIDEGATE",
            sibling: "speed = 1\n[log]\nspeed = 1\n[sibling]\n",
            environment: &self.environment,
            flags: &self.flags,
        }
    }

    fn load(&self) -> Result<TestSettings, ConfigError> {
        load(&self.sources()).map(|loaded| loaded.settings)
    }

    #[track_caller]
    fn load_error(&self) -> (SettingsLayer, String) {
        let error = self.load().unwrap_err();
        (error.layer.clone(), error.to_string())
    }
}

#[test]
fn later_layers_win_key_by_key() {
    let given = TestSources::empty();
    assert_eq!(given.load().unwrap().wait, Duration::from_secs(1));
    let given = given.file("name = \"file\"\nwait = \"2m\"\n[log]\nlevel = \"warn\"\n");
    let settings = given.load().unwrap();
    assert_eq!(settings.wait, Duration::from_secs(120));
    assert_eq!(
        (settings.log.level.as_str(), settings.log.lines),
        ("warn", 5)
    );
    let given = given
        .variable("TIDEGATE_NAME", "env")
        .variable("TIDEGATE_LOG__LINES", "7");
    let settings = given.load().unwrap();
    assert_eq!((settings.name.as_str(), settings.log.lines), ("env", 7));
    let given = given.flag("name", "flag").flag("log.lines", "9");
    let settings = given.load().unwrap();
    assert_eq!((settings.name.as_str(), settings.log.lines), ("flag", 9));
}

#[test]
fn unknown_keys_are_named_with_their_layer() {
    let given = TestSources::empty().file("nmae = \"x\"\n");
    let path = given.sources().file.unwrap().to_owned();
    let (layer, text) = given.load_error();
    assert_eq!(layer, SettingsLayer::File(path.clone()));
    assert!(
        text.contains("nmae") && text.contains(path.to_str().unwrap()),
        "{text}"
    );
    let (layer, text) = TestSources::empty()
        .file("[log]\nlevle = \"x\"\n")
        .load_error();
    assert!(matches!(layer, SettingsLayer::File(_)));
    assert!(text.contains("levle") && text.contains("log"), "{text}");
    let (layer, text) = TestSources::empty()
        .variable("TIDEGATE_LOG__LEVLE", "x")
        .load_error();
    assert_eq!(layer, SettingsLayer::Environment);
    assert!(text.contains("levle"), "{text}");
    let (layer, _) = TestSources::empty().flag("nmae", "x").load_error();
    assert_eq!(layer, SettingsLayer::Flags);
}

#[test]
fn wrong_types_say_key_and_expectation() {
    let (_, text) = TestSources::empty()
        .file("[log]\nlines = \"many\"\n")
        .load_error();
    assert!(
        text.contains("log.lines must be a whole number, 1 to 9"),
        "{text}"
    );
    let (_, text) = TestSources::empty().file("wait = \"soon\"\n").load_error();
    assert!(text.contains("wait"), "{text}");
    let (_, text) = TestSources::empty()
        .variable("TIDEGATE_LOG__LINES", "-1")
        .load_error();
    assert!(text.contains("log.lines"), "{text}");
}

#[test]
fn a_given_file_must_exist_and_be_toml() {
    let mut given = TestSources::empty();
    let missing = Path::new("/nonexistent/tidegate.toml");
    let sources = Sources {
        file: Some(missing),
        ..given.sources()
    };
    let error = load::<TestSettings>(&sources).err().unwrap();
    assert!(
        error.to_string().contains("/nonexistent/tidegate.toml"),
        "{error}"
    );
    given = TestSources::empty().file("name = \n");
    assert!(matches!(given.load_error().0, SettingsLayer::File(_)));
}

#[test]
fn variables_of_orchestrators_and_of_a_sibling_are_not_settings() {
    let given = TestSources::empty()
        .variable("TIDEGATE_SIBLING", "x")
        .variable("TIDEGATE_SIBLING__SPEED", "9")
        .variable("TIDEGATE_SPEED", "9")
        .variable("TIDEGATE_LOG__SPEED", "9")
        .variable("TIDEGATE_PORT", "tcp://10.0.0.1:7777")
        .variable("TIDEGATE_PORT_7777_TCP_ADDR", "10.0.0.1")
        .variable("TIDEGATE_API_SERVICE_HOST", "10.0.0.1")
        .variable("TIDEGATE_API_SERVICE_PORT_HTTP", "7777")
        .variable("TIDEGATE_WIAT", "5s")
        .variable("TIDEGATE_NAME", "env")
        .variable("NAME", "other");
    let loaded = load::<TestSettings>(&given.sources()).ok().unwrap();
    assert_eq!(loaded.settings.name, "env");
    assert_eq!(loaded.unknown_variables, ["TIDEGATE_WIAT"]);
}

#[test]
fn a_variable_below_a_plain_key_of_the_sibling_is_refused() {
    let given = TestSources::empty().variable("TIDEGATE_SPEED__MORE", "9");
    let (layer, message) = given.load_error();
    assert_eq!(layer, SettingsLayer::Environment);
    assert!(message.contains("unknown key speed"), "{message}");
}

#[test]
fn a_variable_that_is_not_utf8_is_refused_if_it_is_a_setting() {
    let given = TestSources::empty()
        .raw_variable(b"TIDEGATE_SIBLING__SPEED", b"\xff")
        .raw_variable(b"TIDEGATE_PORT", b"\xff")
        .raw_variable(b"TIDEGATE_\xff", b"\xff")
        .raw_variable(b"OTHER_\xff", b"\xff");
    assert_eq!(given.load().unwrap().name, "a");
    let (layer, message) = given
        .raw_variable(b"TIDEGATE_NAME", b"hunt\xffer2")
        .load_error();
    assert_eq!(layer, SettingsLayer::Environment);
    assert!(
        message.contains("value of TIDEGATE_NAME is not UTF-8"),
        "{message}"
    );
    assert!(!message.contains("hunt"), "{message}");
    let given = TestSources::empty().raw_variable(b"TIDEGATE_ACCOUNTS__\xff", b"x");
    let (_, message) = given.load_error();
    assert!(
        message.contains("the name of \"TIDEGATE_ACCOUNTS__"),
        "{message}"
    );
}

#[test]
fn two_variables_for_one_key_are_refused() {
    for (one, other) in [
        ("TIDEGATE_NAME", "TIDEGATE_Name"),
        ("TIDEGATE_LOG", "TIDEGATE_LOG__LEVEL"),
        ("TIDEGATE_POOL__X", "TIDEGATE_POOL__X__URL"),
        ("TIDEGATE_LOG__LEVEL", "TIDEGATE_LOG__LEVEL__X"),
    ] {
        for (first, second) in [(one, other), (other, one)] {
            let given = TestSources::empty()
                .variable(first, "hunter2")
                .variable("TIDEGATE_LOG__LINES", "5")
                .variable(second, "hunter2");
            let (layer, message) = given.load_error();
            assert_eq!(layer, SettingsLayer::Environment);
            assert!(message.contains(&format!("{one} and {other}")), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}

const WITH_SECRETS: &str = "\
wait = \"2s\"  # 1ms to 1h
[log]
lines = 5  # 1 to 9
#[accounts]
#NAME = \"\"
#[pool.NAME]
#url = \"\"
#password = \"\"
";

/// Settings with keys for secrets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsWithSecrets {
    #[expect(dead_code, reason = "only deserialized")]
    #[serde(with = "tidegate_core::duration")]
    wait: Duration,
    #[expect(dead_code, reason = "only deserialized")]
    log: HashMap<String, u32>,
    #[serde(default)]
    accounts: HashMap<String, String>,
    #[serde(default)]
    pool: HashMap<String, HashMap<String, String>>,
}

fn with_secrets() -> TestSources {
    TestSources::of(WITH_SECRETS)
}

#[test]
fn printed_settings_can_be_read_back_and_have_no_secrets() {
    let given = with_secrets()
        .file("[accounts]\nops = \"hunter2\"\n[pool.\"a b\"]\nurl = \"redis://u:hunter3@h:1\"\n")
        .variable("TIDEGATE_POOL__X__PASSWORD", "hunter4")
        .variable("TIDEGATE_LOG__LINES", "7")
        .flag("wait", "3s");
    let loaded = load::<SettingsWithSecrets>(&given.sources()).ok().unwrap();
    let printed = loaded.values.print();
    assert!(!printed.contains("hunter"), "{printed}");
    for line in [
        "wait = \"3s\"  # command line",
        "lines = 7  # environment",
        "password = \"<hidden>\"  # environment",
        "[pool.\"a b\"]",
    ] {
        assert!(
            printed.lines().any(|found| found == line),
            "{line}: {printed}"
        );
    }
    assert!(
        printed.contains("url = \"redis://u:<hidden>@h:1\"  # config file "),
        "{printed}"
    );
    // The printed text is rejected because of `<hidden>`, and gives the same settings once the
    // secrets are put back.
    let again = with_secrets().file(&printed);
    let refused = load::<SettingsWithSecrets>(&again.sources()).err().unwrap();
    assert!(
        refused.problem.starts_with("accounts.ops: <hidden>"),
        "{refused}"
    );
    let whole = printed
        .replace("ops = \"<hidden>\"", "ops = \"hunter2\"")
        .replace("u:<hidden>@", "u:hunter3@")
        .replace("password = \"<hidden>\"", "password = \"hunter4\"");
    let again = with_secrets().file(&whole);
    let again = load::<SettingsWithSecrets>(&again.sources()).ok().unwrap();
    assert_eq!(again.settings.accounts["ops"], "hunter2");
    assert_eq!(again.settings.pool["a b"]["url"], "redis://u:hunter3@h:1");
    assert_eq!(again.settings.pool["x"]["password"], "hunter4");
    assert_eq!(loaded.values.changed_keys(&again.values), [""; 0]);
}

/// As `$(cat FILE)` of some shells, secrets of orchestrators and editors leave it.
#[test]
fn a_secret_with_white_space_at_its_end_is_refused_by_its_key() {
    for text in [
        "[accounts]\nops = \"hunter2\\n\"\n",
        "[pool.default]\npassword = \"hunter2 \"\n",
        "[pool.default]\npassword = \"\\thunter2\"\n",
    ] {
        let given = with_secrets().file(text);
        let message = load::<SettingsWithSecrets>(&given.sources());
        let message = message.err().unwrap().to_string();
        let key = match text.contains("ops") {
            true => "accounts.ops begins or ends with white space",
            false => "pool.default.password begins or ends with white space",
        };
        assert!(message.contains(key), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn an_error_near_a_secret_does_not_show_it() {
    for text in [
        "accounts = \"hunter2\"\n",
        "[pool.default]\npassword = [\"hunter2\"]\n",
        "[pool]\ndefault = \"redis://u:hunter2@h\"\n",
        "[accounts]\nops = \"hunter2\n",
        "[accounts]\nops = hunter2\n",
    ] {
        let given = with_secrets().file(text);
        let message = load::<SettingsWithSecrets>(&given.sources()).err().unwrap();
        assert!(!message.to_string().contains("hunter2"), "{message}");
    }
}

#[test]
fn a_text_about_values_is_shown_without_their_secrets() {
    let file = "[accounts]\nops = 'hunter\"2'\n[pool.x]\nurl = \"redis://u:hunter3@h\"\n\
        [pool.y]\nurl = \"redis://:hunter4\"\n";
    let given = with_secrets().file(file);
    let values = load::<SettingsWithSecrets>(&given.sources())
        .ok()
        .unwrap()
        .values;
    let text = format!("{:?} hunter\"2 hunter3 redis://:hunter4 x", "hunter\"2");
    assert_eq!(
        values.without_secrets(&text),
        "\"<hidden>\" <hidden> <hidden> <hidden> x"
    );
}

#[test]
fn a_secret_that_is_a_part_of_a_word_hides_no_word() {
    let given = with_secrets().file("[accounts]\nops = 'e'\nadmin = 'pool'\n");
    let loaded = load::<SettingsWithSecrets>(&given.sources());
    let values = loaded.ok().unwrap().values;
    let text = "log.level: \"e\" is no level of pools, and e is none of pool.x";
    assert_eq!(
        values.without_secrets(text),
        "log.level: \"<hidden>\" is no level of pools, and <hidden> is none of <hidden>.x"
    );
}

#[test]
fn our_file_overrides_a_foreign_file() {
    let given = TestSources::empty().file("[log]\nlevel = \"file\"\n");
    let values: toml::Table = "name = \"foreign\"\n[log]\nlevel = \"foreign\"\n"
        .parse()
        .unwrap();
    let foreign = ForeignSettings {
        name: "other file x",
        values: &values,
    };
    let sources = Sources {
        foreign: Some(foreign),
        ..given.sources()
    };
    let loaded = load::<TestSettings>(&sources).ok().unwrap();
    assert_eq!(loaded.settings.name, "foreign");
    assert_eq!(loaded.settings.log.level, "file");
    assert!(
        loaded
            .values
            .print()
            .contains("name = \"foreign\"  # other file x")
    );
    let values = "nmae = 1\n".parse().unwrap();
    let foreign = ForeignSettings {
        name: "other file x",
        values: &values,
    };
    let sources = Sources {
        foreign: Some(foreign),
        ..given.sources()
    };
    let message = load::<TestSettings>(&sources).err().unwrap().to_string();
    assert!(
        message.starts_with("other file x: unknown key nmae"),
        "{message}"
    );
}

#[test]
fn values_are_compared_and_merged_by_key() {
    let load = |given: TestSources| load::<TestSettings>(&given.sources()).ok().unwrap().values;
    let old = load(TestSources::empty().flag("log.lines", "5"));
    let new = load(
        TestSources::empty()
            .file("name = \"b\"\nwait = \"1s\"\n[log]\nlevel = \"warn\"\nlines = 6\n"),
    );
    assert_eq!(old.changed_keys(&new), ["log.level", "log.lines", "name"]);
    let reloaded = |rows| old.reloaded(&new, &Schema::new(rows).unwrap());
    let mixed = reloaded("[log]\nlevel = \"\"  # reload\n[nothing.like.it]  # reload\n");
    assert_eq!(mixed.changed_keys(&new), ["log.lines", "name"]);
    assert_eq!(mixed.settings::<TestSettings>().unwrap().log.level, "warn");
    let mixed = reloaded("name = \"\"  # reload\n[log]  # reload\n");
    assert_eq!(mixed.changed_keys(&new), [""; 0]);
}
