//! Engines on a private Redis, and keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{NamespaceGrant, Scope};
use tidegate_engine::{
    AccessError, CreatedApiKey, Engine, EngineSettings, Grant, NewApiKey, Principal, PublishSize,
    TokenForm,
};
use tidegate_store::{Store, StoreConfig};
use tidegate_testkit::{RedisControl, RedisServer, start_redis};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A second, and room for a busy machine. A wait that does not end, or a key that is not refused, lasts for
/// [`PATIENCE`].
pub(crate) const REVOKED_WITHIN: Duration = Duration::from_secs(5);
/// Longer than any answer takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const KEYS: &str = "tg:keys";

pub(crate) struct Engines {
    pub(crate) here: Arc<Engine>,
    pub(crate) there: Arc<Engine>,
    pub(crate) control: RedisControl,
    pub(crate) redis: RedisServer,
    followers: Vec<JoinHandle<()>>,
}

pub(crate) fn settings() -> EngineSettings {
    let backlog_max = PublishSize {
        jobs: 1000,
        bytes: 1 << 20,
    };
    EngineSettings {
        moves: BTreeMap::new(),
        backlog_max,
        poll_interval: Duration::from_secs(60),
        waiting_max: 100,
        waiting_per_token_max: 100,
        waiting_seats_per_token_max: 100,
        token_form: TokenForm::Plain,
        skip_token_checks: false,
        queues_max: 10,
        metrics_refresh: Duration::from_secs(5),
    }
}

/// An engine with the pool `default`.
pub(crate) async fn engine(redis: &RedisServer, settings: &EngineSettings) -> Arc<Engine> {
    let mut config = StoreConfig::new(redis.url());
    config.buckets = 1;
    let store = Store::connect(&config).await.unwrap();
    let stores = BTreeMap::from([("default".to_owned(), store.clone())]);
    Arc::new(Engine::new(settings, stores, &store))
}

impl Engines {
    pub(crate) async fn start() -> Self {
        let redis = start_redis();
        let here = engine(&redis, &settings()).await;
        let there = engine(&redis, &settings()).await;
        let followers = [&here, &there].map(|engine| {
            let engine = Arc::clone(engine);
            tokio::spawn(async move { engine.follow(CancellationToken::new()).await })
        });
        Self {
            here,
            there,
            control: RedisControl::connect(&redis.url()).await,
            redis,
            followers: followers.into(),
        }
    }

    /// Replaces the stored entry of a key.
    pub(crate) async fn damage(&mut self, key: &CreatedApiKey) {
        let entry = r#"{"secret_sha256":"00"#;
        self.control.set_field(KEYS, key.id.as_str(), entry).await;
    }

    pub(crate) async fn key(&self, namespaces: &str, scopes: &[Scope]) -> CreatedApiKey {
        let new = new_key(namespaces, scopes, None);
        self.here.create_key(new).await.unwrap()
    }

    /// A key that expires this long after now, on the clock of Redis.
    pub(crate) async fn expiring_key(&self, after: Duration) -> CreatedApiKey {
        let mut new = new_key("shop", &Scope::ALL, None);
        let now_ms = self.now_ms().await;
        new.grant.expires_at_ms = Some(now_ms + u64::try_from(after.as_millis()).unwrap());
        self.here.create_key(new).await.unwrap()
    }

    /// The time on the clock of Redis.
    pub(crate) async fn now_ms(&self) -> u64 {
        self.key("shop", &[Scope::Read]).await.key.created_at_ms
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        self.followers.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) fn new_key(namespaces: &str, scopes: &[Scope], expires_at_ms: Option<u64>) -> NewApiKey {
    NewApiKey {
        grant: Grant {
            pool: "default".into(),
            namespaces: NamespaceGrant::try_from(namespaces).unwrap(),
            scopes: scopes.iter().copied().collect(),
            expires_at_ms,
        },
        description: "a test".to_owned(),
    }
}

pub(crate) fn namespaces(name: &str) -> NamespaceGrant {
    NamespaceGrant::try_from(name).unwrap()
}

/// The outcome for a request in the namespace `shop`.
pub(crate) async fn authenticate(engine: &Engine, text: &str) -> Result<Principal, AccessError> {
    engine.authenticate(text, &namespaces("shop")).await
}

/// Whether a key is accepted. Any error other than an invalid key fails the test.
pub(crate) async fn is_accepted(engine: &Engine, text: &str) -> bool {
    match authenticate(engine, text).await {
        Ok(_) => true,
        Err(AccessError::KeyInvalid) => false,
        Err(error) => panic!("{error}"),
    }
}
