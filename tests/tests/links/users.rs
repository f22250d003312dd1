//! Users of Redis with few rights.

use std::time::Duration;

use tidegate_testkit::certificates::write_text;
use tidegate_testkit::{
    DaemonProgram, RedisOptions, RedisServer, consistency, run_until_exit, run_with_settings,
};

use crate::fleet::{Fleet, live_through};

const LIMIT: Duration = Duration::from_secs(20);
const EXAMPLE: &str = include_str!("../../../deploy/redis/users.acl");
const ADMIN_PASSWORD: &str = "admin-sesame";

fn redis_with(user: &str) -> RedisServer {
    let rule = user.strip_prefix("user ").unwrap().trim();
    RedisOptions::new()
        .setting("requirepass", ADMIN_PASSWORD)
        .setting("user", rule)
        .start()
}

fn admin_url(redis: &RedisServer) -> String {
    format!("redis://:{ADMIN_PASSWORD}@{}", redis.address())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_example_are_sufficient_for_all_verbs() {
    let redis = redis_with(EXAMPLE);
    let pool = format!(
        "url = \"redis://{}\"\nusername = \"tidegate\"\npassword = \"CHANGE-ME\"",
        redis.address()
    );
    let fleet = Fleet::start(2, 2, &pool).await;
    live_through(&fleet).await;
    let logs = fleet.logs();
    assert!(
        !logs.contains("forbidden") && !logs.contains("WARN"),
        "{logs}"
    );
    assert!(!logs.contains("CHANGE-ME"), "{logs}");
    consistency::check(&admin_url(&redis)).await;
    let client = redis::Client::open(admin_url(&redis)).unwrap();
    let denied: String = redis::cmd("ACL")
        .arg("LOG")
        .query::<redis::Value>(&mut client.get_connection().unwrap())
        .map(|log| format!("{log:?}"))
        .unwrap();
    assert!(!denied.contains("tidegate"), "the server refused: {denied}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_at_the_start() {
    for (change, word) in [
        ((" +zadd ", " "), "ZADD"),
        ((" +time ", " "), "TIME"),
        ((" +hsetnx ", " "), "HSETNX"),
        ((" +hscan ", " "), "HSCAN"),
        ((" +hlen ", " "), "HLEN"),
        ((" +ssubscribe ", " "), "SSUBSCRIBE"),
        ((" +info ", " "), "info"),
        ((" +evalsha ", " "), "evalsha"),
        (("&tg:*", "&other"), "SPUBLISH"),
        (("~tg:*", "~other"), "HGETALL"),
        ((">CHANGE-ME", ">another"), "authentication failed"),
    ] {
        let rule = EXAMPLE.replace(change.0, change.1);
        assert_ne!(rule, EXAMPLE, "{change:?}");
        let redis = redis_with(&rule);
        let pool = format!(
            "[pool.default]\nurl = \"redis://{}\"\nusername = \"tidegate\"\npassword = \"CHANGE-ME\"",
            redis.address()
        );
        for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
            let message = run_with_settings(program, &pool, &[], LIMIT).await;
            assert_eq!(message.code, Some(1), "{}", message.log);
            let message = message.log;
            assert!(
                message.contains(word) && message.contains("users.acl"),
                "{word}: {message}"
            );
            assert!(
                message.contains("pool default") && !message.contains("CHANGE-ME"),
                "{message}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_auditor_are_sufficient_to_repair() {
    let redis = redis_with(include_str!("../../../deploy/redis/auditor.acl"));
    let mut connection = redis::Client::open(admin_url(&redis))
        .unwrap()
        .get_connection()
        .unwrap();
    for command in [
        "SET tg:1:{18306}:body:1000001 x",
        "HSET tg:1:{18306}:queues # 0 ns/q 1",
        "HSET tg:1:{18306}:q:1 ready 3",
        "HSET tg:1:{18306}:c:10000 05 damaged",
        "SET tg:1:{18306}:upload:a:0 x",
        "ZADD tg:1:{18306}:slots 5 1:5",
    ] {
        let mut words = command.split(' ');
        let mut sent = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            sent.arg(word);
        });
        sent.exec(&mut connection).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let pool = format!(
        "[pool.default]\nurl = \"redis://{}\"\nusername = \"tidegate-audit\"\npassword = \"CHANGE-ME\"",
        redis.address()
    );
    let config = write_text(folder.path(), "settings.toml", &pool);
    let audit = async || {
        let flags = [
            "audit",
            "--config",
            config.to_str().unwrap(),
            "--repair",
            "--pause-ms",
            "0",
        ];
        run_until_exit(DaemonProgram::Pumpd, &flags, LIMIT).await
    };
    let ended = audit().await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(
        ended.log.contains("8 findings, 8 repaired"),
        "{}",
        ended.log
    );
    let ended = audit().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}
