//! Invalid settings of a pool, each refused at once with its key.

use std::time::Duration;

use tempfile::TempDir;
use tidegate_testkit::certificates::write_text;
use tidegate_testkit::{CertificateAuthority, DaemonProgram, run_with_settings};

const LIMIT: Duration = Duration::from_secs(20);

/// Both daemons refuse these settings with an error that names the pool and has these words.
async fn refused(pool: &str, words: [&str; 2]) {
    let settings = format!("[pool.default]\n{pool}\n");
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let ended = run_with_settings(program, &settings, &[], LIMIT).await;
        assert_eq!(ended.code, Some(1), "{pool}: {}", ended.log);
        let sentence = ended.log.lines().last().unwrap_or_default();
        assert!(sentence.contains("pool default: "), "{pool}: {sentence}");
        for word in words {
            assert!(sentence.contains(word), "{pool}: {sentence}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_address_is_refused_with_key_and_remedy() {
    let url = "url = \"redis://127.0.0.1:1\"";
    let sentinel = "sentinels = \"127.0.0.1:1\"";
    for (pool, words) in [
        ("url = \"http://127.0.0.1:1\"", ["url", "rediss://"]),
        ("url = \"\"", ["sentinels", "url"]),
        ("url = \"rediss://a:1#insecure\"", ["#", "tls_ca_file"]),
        (sentinel, ["master_name", "sentinel monitor"]),
        (
            "sentinels = [\"a:x\"]\nmaster_name = \"m\"",
            ["sentinels", "host:port"],
        ),
        (&format!("{url}\n{sentinel}"), ["url", "sentinels"]),
        (
            &format!("{url}\ncluster = \"redis://127.0.0.1:1\""),
            ["url", "cluster"],
        ),
        (
            "cluster = \"redis://127.0.0.1:1\"\ndatabase = 1",
            ["cluster", "database"],
        ),
        ("master_name = \"m\"", ["master_name", "sentinels"]),
        ("username = \"alice\"", ["username", "password"]),
        ("tls = true", ["tls", "rediss://"]),
    ] {
        refused(pool, words).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_tls_file_is_refused_with_key_and_remedy() {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let file = |key: &str, name: &str, text: &str| {
        format!("{key} = {:?}\n", write_text(folder.path(), name, text))
    };
    let authority = CertificateAuthority::new();
    let (one, other) = (authority.certificate("a"), authority.certificate("b"));
    let tls = "url = \"rediss://127.0.0.1:1\"\n".to_owned();
    let certificate = file("tls_certificate_file", "one.pem", &one.certificate);
    let its_key = file("tls_key_file", "one.key", &one.key);
    let other_key = file("tls_key_file", "other.key", &other.key);
    let no_key = file("tls_key_file", "empty.key", "nothing\n");
    let no_authority = file("tls_ca_file", "empty.pem", "nothing\n");
    let nowhere = "tls_ca_file = \"/nowhere/ca.pem\"\n".to_owned();
    for (pool, words) in [
        (certificate.clone(), ["tls_certificate_file", "rediss://"]),
        (tls.clone() + &nowhere, ["tls_ca_file", "/nowhere/ca.pem"]),
        (
            tls.clone() + &no_authority,
            ["tls_ca_file", "no certificate"],
        ),
        (
            tls.clone() + &its_key,
            ["tls_key_file", "tls_certificate_file"],
        ),
        (
            tls.clone() + &certificate + &no_key,
            ["tls_key_file", "no private key"],
        ),
        (tls + &certificate + &other_key, ["tls_key_file", "belong"]),
    ] {
        refused(&pool, words).await;
    }
}
