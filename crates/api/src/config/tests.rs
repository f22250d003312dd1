//! The defaults, and which settings are rejected.

use tidegate_core::limits::NAME_BYTES_MAX;
use tidegate_daemon::{Bound, Schema, Sources, load};
use tidegate_store::{PUBLISH_JOBS_MAX, UnsafeServer};

use super::*;

impl ApiConfig {
    pub(crate) fn defaults() -> Self {
        SHIPPED.clone()
    }
}

fn with_flags(flags: &[(&str, String)]) -> ApiConfig {
    with(&[], flags)
}

fn with(environment: &[(String, String)], flags: &[(&str, String)]) -> ApiConfig {
    loaded(environment, flags).unwrap()
}

fn loaded(environment: &[(String, String)], flags: &[(&str, String)]) -> Result<ApiConfig, String> {
    let schema = Schema::new(DEFAULTS).unwrap();
    let own = environment.iter();
    let environment: Vec<_> = own
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let sources = Sources {
        schema: &schema,
        foreign: None,
        file: None,
        env_prefix: "TIDEGATE",
        sibling: "",
        environment: &environment,
        flags,
    };
    match load(&sources) {
        Ok(loaded) => Ok(loaded.settings),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_default_file_has_every_key() {
    let config = with_flags(&[]);
    assert_eq!(config.check(), Ok(()));
    assert_eq!(config.listen.to_string(), "127.0.0.1:7777");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:7778");
    let redis = &config.pool[DEFAULT_POOL];
    assert_eq!(redis.url, tidegate_store::DEFAULT_URL);
    assert_eq!(redis.unsafe_server, UnsafeServer::Refuse);
}

#[test]
fn every_key_of_the_default_file_has_a_comment() {
    let mut comment = false;
    for line in DEFAULTS.lines() {
        let is_comment = line.starts_with("# ");
        if line.contains('=') && !is_comment {
            assert!(comment, "no comment above: {line}");
        }
        comment = is_comment || (comment && !line.is_empty());
    }
}

#[test]
fn the_default_pool_is_required() {
    let mut config = with_flags(&[]);
    config.pool.clear();
    assert!(config.check().unwrap_err().contains("[pool.default]"));
}

#[test]
fn every_number_and_duration_has_bounds() {
    assert_eq!(Schema::new(DEFAULTS).unwrap().gaps(), [""; 0]);
}

#[test]
fn bounds_follow_from_limits_of_names_and_scripts() {
    let schema = Schema::new(DEFAULTS).unwrap();
    for (key, most) in [
        ("requests.name_bytes_max", NAME_BYTES_MAX),
        ("requests.bulk_jobs_max", PUBLISH_JOBS_MAX),
    ] {
        let expected = Bound::Number(1, most.try_into().unwrap());
        assert_eq!(schema.bound(key), Some(expected), "{key}");
    }
}

#[test]
fn request_limits_have_bounds() {
    for (key, value) in [
        ("requests.name_bytes_max", "256"),
        ("requests.bulk_jobs_max", "65"),
        ("requests.consume_jobs_max", "0"),
        ("requests.job_bytes_max", "100000000"),
        ("requests.backlog_jobs_max", "0"),
        ("requests.backlog_jobs_max", "1000001"),
        ("requests.backlog_bytes_max", "0"),
    ] {
        let problem = loaded(&[], &[(key, value.to_owned())]).unwrap_err();
        assert!(
            problem.contains(key) && problem.contains(value),
            "{problem}"
        );
    }
}

#[test]
fn the_longest_header_is_within_the_limit_of_all_headers() {
    let mut config = with_flags(&[]);
    let room = config.requests.headers_bytes_max();
    config.connections.header_bytes_max = room;
    assert_eq!(config.check(), Ok(()));
    config.connections.header_bytes_max = room + 1;
    let said = config.check().unwrap_err();
    for key in [
        "connections.header_bytes_max",
        "requests.in_flight_bytes_max",
    ] {
        assert!(said.contains(key), "{said}");
    }
}

#[test]
fn a_pool_moves_only_to_a_pool_that_does_not_move() {
    let with_targets = |targets: &[(&str, &str)]| {
        let mut config = with_flags(&[]);
        for name in ["old", "new"] {
            let pool = config.pool[DEFAULT_POOL].clone();
            config.pool.insert(name.to_owned(), pool);
        }
        for (name, target) in targets {
            let pool = config.pool.get_mut(*name).unwrap();
            pool.migrate_to = Some((*target).to_owned());
        }
        config.check()
    };
    assert_eq!(with_targets(&[("old", "new")]), Ok(()));
    assert_eq!(with_targets(&[("old", "new"), ("default", "new")]), Ok(()));
    for (targets, said) in [
        (&[("old", "nwe")][..], "no such pool"),
        (&[("old", "old")], "cannot move to itself"),
        (&[("old", "new"), ("new", "default")], "has migrate_to"),
    ] {
        let problem = with_targets(targets).unwrap_err();
        assert!(problem.contains("pool.old.migrate_to"), "{problem}");
        assert!(problem.contains(said), "{problem}");
    }
}

#[test]
fn environment_variables_switch_a_pool_to_sentinels() {
    let variables = [
        ("SENTINELS", "a:1,b"),
        ("MASTER_NAME", "tide"),
        ("PASSWORD", "12345"),
        ("DATABASE", "3"),
        ("TLS", "true"),
    ];
    let environment = variables.map(|(key, value)| {
        let name = format!("TIDEGATE_POOL__DEFAULT__{key}");
        (name, value.to_owned())
    });
    let config = with(&environment, &[]);
    let redis = &config.pool[DEFAULT_POOL];
    assert_eq!(redis.sentinels, ["a:1", "b"]);
    assert_eq!(redis.url, tidegate_store::DEFAULT_URL);
    assert_eq!(redis.password.as_deref(), Some("12345"));
    assert_eq!((redis.database, redis.tls), (Some(3), true));
}

#[test]
fn an_admin_port_for_other_machines_needs_accounts_or_a_setting() {
    for (address, is_private) in [
        ("127.0.0.1:1", true),
        ("127.8.8.8:1", true),
        ("[::1]:1", true),
        ("[::ffff:127.0.0.1]:1", true),
        ("0.0.0.0:1", false),
        ("[::]:1", false),
        ("10.0.0.1:1", false),
    ] {
        let config = with_flags(&[("admin_listen", address.to_owned())]);
        assert_eq!(config.check().is_ok(), is_private, "{address}");
        let mut allowed = config.clone();
        allowed.allow_open_admin = true;
        assert_eq!(allowed.check(), Ok(()), "{address}");
        let mut guarded = config;
        let password = Password::from("secret".to_owned());
        guarded.accounts.insert("ops".to_owned(), password);
        assert_eq!(guarded.check(), Ok(()), "{address}");
        assert!(!format!("{guarded:?}").contains("secret"));
    }
}

#[test]
fn an_account_has_a_name_without_a_colon_and_a_password() {
    for (name, password) in [("", "x"), ("a:b", "x"), ("a", "")] {
        let mut config = with_flags(&[]);
        let password = Password::from(password.to_owned());
        config.accounts.insert(name.to_owned(), password);
        assert!(config.check().unwrap_err().contains("accounts"), "{name}");
    }
}

#[test]
fn the_listener_of_youzan_needs_an_address_a_namespace_and_a_pool() {
    let with_key = |key: &'static str, value: &str| with_flags(&[(key, value.to_owned())]);
    let off = ApiConfig::defaults();
    assert!(off.youzan.limits(&off.connections).is_none());
    let on = with_key("youzan.listen", "127.0.0.1:7790");
    assert_eq!(on.check(), Ok(()));
    let limits = on.youzan.limits(&on.connections).unwrap();
    assert_eq!(limits.connections_max, 10_000);
    for (key, value) in [
        ("youzan.listen", "localhost:7790"),
        ("youzan.listen", "7790"),
        ("youzan.namespace", ""),
        ("youzan.namespace", "a.b"),
        ("youzan.pool", "none"),
    ] {
        let problem = with_key(key, value).check().unwrap_err();
        assert!(problem.contains(key), "{problem}");
    }
    let secret = with_key("youzan.token", "secret-7");
    assert!(!format!("{secret:?}").contains("secret-7"));
}
