//! Redis servers that daemons refuse.

use std::time::Duration;

use tidegate_testkit::{
    DaemonProgram, ProgramExit, RedisOptions, RedisServer, Stack, run_with_settings, start_redis,
};

const LIMIT: Duration = Duration::from_secs(20);
const BOTH: [DaemonProgram; 2] = [DaemonProgram::Api, DaemonProgram::Pumpd];

async fn refused(program: DaemonProgram, redis: &RedisServer, config: &str) -> ProgramExit {
    refused_at(program, &redis.url(), config).await
}

async fn refused_at(program: DaemonProgram, url: &str, config: &str) -> ProgramExit {
    let ended = run_with_settings(program, config, &["--redis", url], LIMIT).await;
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    ended
}

#[tokio::test]
async fn a_server_without_append_only_file_is_refused_with_the_remedy() {
    let redis = RedisOptions::new().without_append_only_file().start();
    for program in BOTH {
        let said = refused(program, &redis, "").await.log;
        assert!(
            said.contains("append-only file") && said.contains("appendonly yes"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_with_the_remedy() {
    let redis = RedisOptions::new()
        .setting("maxmemory-policy", "allkeys-lru")
        .start();
    for program in BOTH {
        let said = refused(program, &redis, "").await.log;
        assert!(
            said.contains("allkeys-lru") && said.contains("noeviction"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn an_unsafe_server_can_be_allowed_with_a_warning() {
    let unsafe_options = RedisOptions::new()
        .without_append_only_file()
        .setting("maxmemory-policy", "volatile-ttl");
    let stack = Stack::builder()
        .redis(unsafe_options)
        .allow_unsafe_redis()
        .start()
        .await;
    for log in [stack.api(0).log(), stack.pump(0).log()] {
        let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
        let warns_of = |what: &str| warnings.iter().any(|line| line.contains(what));
        assert!(
            warns_of("append-only file") && warns_of("volatile-ttl"),
            "{log}"
        );
    }
    let queue = stack.queue("q").await;
    let id = queue.publish("x").delay_s(1).id().await;
    assert_eq!(queue.consume().timeout_s(10).job().await.unwrap().id, id);
    stack.finish().await;
}

#[tokio::test]
async fn a_server_too_old_is_refused_with_its_version() {
    let redis = RedisOptions::old().start();
    for program in BOTH {
        let said = refused(program, &redis, "").await.log;
        assert!(said.contains("6.2.") && said.contains("too old"), "{said}");
    }
}

#[tokio::test]
async fn another_layout_is_refused_with_both_stamps() {
    let stack = Stack::builder().start().await;
    for program in BOTH {
        for (setting, ours, other) in [
            ("buckets = 128", "buckets=128", "buckets=256"),
            ("slot_ms = 1000", "slot_ms=1000", "slot_ms=65536"),
        ] {
            let config = format!("[pool.default]\n{setting}");
            let said = refused(program, &stack.redis, &config).await.log;
            assert!(said.contains(ours) && said.contains(other), "{said}");
        }
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_daemon_exits_if_the_server_does_not_answer() {
    let url = start_redis().url();
    for program in BOTH {
        let said = refused_at(program, &url, "connect_patience = \"1s\"")
            .await
            .log;
        assert!(said.contains("redis"), "{said}");
    }
}

/// The answer of such a server is foreign text, and means nothing to a reader.
#[tokio::test]
async fn a_url_of_an_http_server_is_named_in_one_line() {
    let stack = Stack::builder().pumps(0).start().await;
    let url = format!("redis://{}", stack.api(0).listen());
    for program in BOTH {
        let log = refused_at(program, &url, "connect_patience = \"100ms\"")
            .await
            .log;
        assert!(log.contains("no redis listens at this address"), "{log}");
        assert!(!log.contains("Unexpected"), "{log}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn no_password_is_logged() {
    let redis = RedisOptions::new()
        .setting("requirepass", "open-sesame")
        .start();
    let address = redis.address();
    for program in BOTH {
        for url in [
            format!("redis://:wrong-sesame@{address}"),
            format!("redis://{address}"),
        ] {
            let said = refused_at(program, &url, "connect_patience = \"1s\"")
                .await
                .log;
            assert!(!said.contains("sesame"), "{said}");
        }
    }
}
