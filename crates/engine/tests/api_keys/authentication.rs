//! Which texts are accepted, and what they give access to.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tidegate_core::{ApiKeyId, Namespace, NamespaceGrant, Scope};
use tidegate_engine::{AccessError, CreateKeyError, EngineSettings, NewApiKey, generate};
use tidegate_testkit::{eventually, start_redis};

use crate::fixture::{
    Engines, KEYS, PATIENCE, authenticate, engine, is_accepted, namespaces, new_key, settings,
};

#[tokio::test]
async fn a_key_gives_the_access_that_it_was_created_with() {
    let engines = Engines::start().await;
    let scopes = [Scope::Publish, Scope::Read];
    let key = engines.key("shop", &scopes).await;
    for engine in [&engines.here, &engines.there] {
        let client = authenticate(engine, &key.text).await.unwrap();
        assert_eq!(&*client.pool.name, "default");
        assert_eq!(&*client.grant.pool, "default");
        assert_eq!(client.grant.namespaces.as_str(), "shop");
        assert_eq!(client.grant.scopes, scopes.into_iter().collect());
        assert_eq!(client.key_id, Some(key.id));
        assert_eq!((client.ends_at, client.grant.expires_at_ms), (None, None));
        let check = |name: &str, scope| client.grant.check(&namespaces(name), scope);
        assert_eq!(check("shop", Scope::Read), Ok(()));
        let missing = Err(AccessError::ScopeMissing(Scope::Consume));
        assert_eq!(check("shop", Scope::Consume), missing);
        let forbidden = Err(AccessError::NamespaceForbidden);
        assert_eq!(check("other", Scope::Read), forbidden);
        // The namespace of the request decides nothing yet.
        let other = engine.authenticate(&key.text, &namespaces("other")).await;
        assert_eq!(other.unwrap().grant, client.grant);
    }
    let everywhere = engines.key("*", &[Scope::Admin]).await;
    let client = authenticate(&engines.there, &everywhere.text)
        .await
        .unwrap();
    assert_eq!(client.grant.namespaces, NamespaceGrant::All);
    assert_eq!(client.grant.check(&namespaces("any"), Scope::Admin), Ok(()));
}

#[tokio::test]
async fn forged_truncated_and_unknown_keys_are_refused() {
    let engines = Engines::start().await;
    let engine = &engines.here;
    let key = engines.key("shop", &Scope::ALL).await;
    let other = engines.key("shop", &Scope::ALL).await;
    let missing = authenticate(engine, "").await.unwrap_err();
    assert_eq!(missing, AccessError::KeyMissing);
    let (head, secret) = key.text.rsplit_once('_').unwrap();
    let (other_head, other_secret) = other.text.rsplit_once('_').unwrap();
    let unknown = ApiKeyId::try_from("000000000000").unwrap();
    // Before and after the keys are in the cache.
    for _ in 0..2 {
        for length in 1..key.text.len() {
            assert!(!is_accepted(engine, &key.text[..length]).await, "{length}");
        }
        for forged in [
            format!("{head}_{other_secret}"),
            format!("{other_head}_{secret}"),
            format!("{head}_{}", generate()),
            format!("{head}_{}", secret.to_lowercase()),
            format!("tg_{unknown}_{secret}"),
            format!("{}0", key.text),
            format!(" {}", key.text),
            key.text.replace("tg_", "TG_"),
            key.text.replace("tg_", ""),
            key.text.replace('_', ":"),
            format!("default:{}", key.text),
            "tg_".to_owned(),
            "tg__".to_owned(),
            "\u{0}".to_owned(),
            "x".repeat(100_000),
            format!("tg_{}", "ü".repeat(30)),
        ] {
            assert!(!is_accepted(engine, &forged).await, "{forged}");
        }
        assert!(is_accepted(engine, &key.text).await);
        assert!(is_accepted(engine, &other.text).await);
    }
}

/// The secret cannot be read in Redis, and what can be read there is no key.
#[tokio::test]
async fn a_stored_hash_is_no_secret() {
    let engines = Engines::start().await;
    let key = engines.key("shop", &Scope::ALL).await;
    let entry = engines.here.keys.get(key.id.as_str()).await.unwrap();
    let stored = format!("{:?} {:?}", entry.unwrap(), key.key);
    let secret = key.text.rsplit_once('_').unwrap().1;
    assert!(!stored.contains(secret), "{stored}");
    let hash: String = (key.key.secret_hash.0.iter())
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let head = key.text.rsplit_once('_').unwrap().0;
    for forged in [format!("{head}_{hash}"), format!("{head}_{}", &hash[..26])] {
        assert!(!is_accepted(&engines.here, &forged).await, "{forged}");
    }
}

#[tokio::test]
async fn an_lmstfy_token_may_publish_and_consume_in_its_namespace() {
    let engines = Engines::start().await;
    let engine = &engines.here;
    let shop = Namespace::try_from("shop").unwrap();
    let tokens = &engine.tokens;
    for token in ["a-token-of-the-user-1", "b:c-token-of-the-user"] {
        let _ = tokens.create("default", &shop, token, "x").await.unwrap();
    }
    for text in [
        "a-token-of-the-user-1",
        "default:a-token-of-the-user-1",
        ":a-token-of-the-user-1",
        "default:b:c-token-of-the-user",
    ] {
        let client = authenticate(engine, text).await.unwrap();
        assert_eq!((client.key_id, &*client.grant.pool), (None, "default"));
        assert_eq!(client.grant.scopes.to_string(), "publish,consume");
        assert_eq!(client.grant.namespaces, NamespaceGrant::One(shop.clone()));
        let new = new_key("shop", &[Scope::Publish], None).grant;
        client.grant.check_new_key(&new).unwrap_err();
        let elsewhere = engine.authenticate(text, &namespaces("other")).await;
        assert_eq!(elsewhere.unwrap_err(), AccessError::KeyInvalid);
        let everywhere = engine.authenticate(text, &NamespaceGrant::All).await;
        assert_eq!(everywhere.unwrap_err(), AccessError::NamespaceForbidden);
    }
    for text in ["nowhere:a-token-of-the-user-1", "default:", ":", "a-token"] {
        assert!(!is_accepted(engine, text).await, "{text}");
    }
    // A text that begins as a key is never a token.
    let like_a_key = "tg_a-token-of-the-user";
    let _ = tokens
        .create("default", &shop, like_a_key, "x")
        .await
        .unwrap();
    assert!(!is_accepted(engine, like_a_key).await);
}

#[tokio::test]
async fn an_invalid_new_key_is_refused_with_the_reason() {
    let engines = Engines::start().await;
    let engine = &engines.here;
    let good = new_key("shop", &[Scope::Read], None);
    let now_ms = engines.now_ms().await;
    let refusal = async |change: &dyn Fn(&mut NewApiKey)| {
        let mut new = good.clone();
        change(&mut new);
        engine.create_key(new).await.unwrap_err()
    };
    let error = refusal(&|new| new.grant.pool = "nowhere".into()).await;
    assert_eq!(error, CreateKeyError::PoolNotFound);
    let error = refusal(&|new| new.grant.scopes = [].into_iter().collect()).await;
    assert_eq!(error, CreateKeyError::NoScope);
    for length in [0, 256] {
        let error = refusal(&|new| new.description = "x".repeat(length)).await;
        assert_eq!(error, CreateKeyError::Description);
    }
    for expires_at_ms in [0, 1, now_ms] {
        let error = refusal(&|new| new.grant.expires_at_ms = Some(expires_at_ms)).await;
        assert!(matches!(error, CreateKeyError::Expired { .. }), "{error}");
    }
    let far = new_key("shop", &[Scope::Read], Some(u64::MAX));
    let far = engine.create_key(far).await.unwrap();
    assert!(is_accepted(engine, &far.text).await);
}

#[tokio::test]
async fn a_key_of_a_pool_that_is_not_configured_is_refused() {
    let mut engines = Engines::start().await;
    let key = engines.key("shop", &Scope::ALL).await;
    let (field, entry) = (key.id.as_str(), stored_text(&key.text));
    engines.control.set_field(KEYS, field, &entry).await;
    assert!(is_accepted(&engines.there, &key.text).await);
    let elsewhere = entry.replace("default", "elsewhere");
    let other = engines.key("shop", &Scope::ALL).await;
    let entry = elsewhere.replace(&stored_hash(&key.text), &stored_hash(&other.text));
    let field = other.id.as_str();
    engines.control.set_field(KEYS, field, &entry).await;
    assert!(!is_accepted(&engines.there, &other.text).await);
}

/// The hash of the secret of a key, as it is stored.
fn stored_hash(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let secret = text.rsplit_once('_').unwrap().1;
    let hash = Sha256::digest(secret.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stored entry, as an operator could write it.
fn stored_text(text: &str) -> String {
    let hash = stored_hash(text);
    format!(
        r#"{{ "secret_sha256": "{hash}", "pool": "default", "namespace": "shop", "scopes": ["read"],
           "description": "by hand", "created_at_ms": 0, "expires_at_ms": 0 }}"#
    )
}

#[tokio::test]
async fn without_checks_any_text_gives_access_to_everything() {
    let redis = start_redis();
    let unchecked = EngineSettings {
        skip_token_checks: true,
        ..settings()
    };
    let engine = engine(&redis, &unchecked).await;
    for text in ["", "x", "default:x", "tg_x"] {
        let client = authenticate(&engine, text).await.unwrap();
        for scope in Scope::ALL {
            assert_eq!(client.grant.check(&namespaces("any"), scope), Ok(()));
        }
    }
    assert!(!is_accepted(&engine, "nowhere:x").await);
}

/// A log that a test can read.
#[derive(Clone, Default)]
struct TestLog(Arc<Mutex<Vec<u8>>>);

impl TestLog {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for TestLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_damaged_key_is_refused_and_named_in_the_log_and_others_work() {
    let mut engines = Engines::start().await;
    let damaged = engines.key("shop", &Scope::ALL).await;
    let whole = engines.key("shop", &Scope::ALL).await;
    engines.damage(&damaged).await;
    let log = TestLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    for engine in [&engines.here, &engines.there] {
        for _ in 0..3 {
            assert!(!is_accepted(engine, &damaged.text).await);
            assert!(is_accepted(engine, &whole.text).await);
        }
    }
    // At most one such line is logged each second, and another test may have caused it.
    let log = eventually("it is logged", PATIENCE, async || {
        assert!(!is_accepted(&engines.here, &damaged.text).await);
        match log.text() {
            text if text.contains("whose stored entry is damaged") => Ok(text),
            text => Err(text),
        }
    })
    .await;
    drop(guard);
    assert!(log.contains(damaged.id.as_str()), "{log}");
    assert!(log.contains("delete the key"), "{log}");
    assert!(!log.contains(&damaged.text), "{log}");
    assert!(engines.here.delete_key(damaged.id.as_str()).await.unwrap());
}
