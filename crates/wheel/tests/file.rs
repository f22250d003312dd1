//! Files of tasks after crashes, with damage, and with two users.

#![allow(clippy::unwrap_used, reason = "tests fail by a panic")]

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tidegate_wheel::{File, Persistence, SavedTask, TaskId};

fn task(number: u64, bytes: usize) -> SavedTask {
    let mut id = [0; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    SavedTask {
        id: TaskId::from_bytes(id),
        task_type: Arc::from("remind"),
        due: UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + number),
        payload: vec![b'x'; bytes].into(),
    }
}

async fn loaded(path: &Path) -> Vec<SavedTask> {
    let file = File::open(path).unwrap();
    let mut tasks = file.load().await.unwrap();
    file.close().await.unwrap();
    tasks.sort_by_key(|task| task.id);
    tasks
}

#[tokio::test]
async fn what_is_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let file = File::open(&path).unwrap();
    for number in 0..10 {
        file.save(task(number, number as usize)).await.unwrap();
    }
    file.delete(task(3, 0).id).await.unwrap();
    file.delete(task(77, 0).id).await.unwrap();
    // Replaces another one.
    file.save(task(4, 100)).await.unwrap();
    file.close().await.unwrap();
    let expected: Vec<SavedTask> = (0..10)
        .filter(|number| *number != 3)
        .map(|number| task(number, if number == 4 { 100 } else { number as usize }))
        .collect();
    assert_eq!(loaded(&path).await, expected);
}

#[tokio::test]
async fn requests_take_effect_in_order_although_their_futures_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let file = File::open(&path).unwrap();
    drop(file.save(task(1, 5)));
    drop(file.delete(task(1, 5).id));
    drop(file.save(task(2, 5)));
    file.close().await.unwrap();
    assert_eq!(loaded(&path).await, [task(2, 5)]);
}

/// A crash may end the file at any byte.
#[tokio::test]
async fn a_write_that_was_cut_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let file = File::open(&path).unwrap();
    file.save(task(1, 20)).await.unwrap();
    let first = std::fs::metadata(&path).unwrap().len() as usize;
    file.save(task(2, 20)).await.unwrap();
    file.close().await.unwrap();
    let whole = std::fs::read(&path).unwrap();
    for bytes in first..whole.len() {
        std::fs::write(&path, &whole[..bytes]).unwrap();
        assert_eq!(loaded(&path).await, [task(1, 20)], "cut at {bytes}");
        // The rest is overwritten, so that it is no damage later.
        let file = File::open(&path).unwrap();
        file.save(task(3, 1)).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(
            loaded(&path).await,
            [task(1, 20), task(3, 1)],
            "cut at {bytes}"
        );
    }
    // Damage in the last write is not taken for an unfinished one.
    for byte in first..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let error = File::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "byte {byte}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "byte {byte}");
    }
    // Longer, but not written to.
    let mut empty = whole[..first].to_vec();
    empty.resize(first + 4096, 0);
    std::fs::write(&path, &empty).unwrap();
    assert_eq!(loaded(&path).await, [task(1, 20)]);
}

#[tokio::test]
async fn damage_in_the_middle_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let file = File::open(&path).unwrap();
    file.save(task(1, 20)).await.unwrap();
    let first = std::fs::metadata(&path).unwrap().len() as usize;
    file.save(task(2, 20)).await.unwrap();
    file.close().await.unwrap();
    let whole = std::fs::read(&path).unwrap();
    for byte in 0..first {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let error = File::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "byte {byte}: {error}");
        assert!(error.to_string().contains("damaged at byte 0"), "{error}");
        assert_eq!(
            std::fs::read(&path).unwrap(),
            damaged,
            "the file is unchanged"
        );
    }
}

#[tokio::test]
async fn a_file_has_one_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let first = File::open(&path).unwrap();
    let error = File::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    first.close().await.unwrap();
    File::open(&path).unwrap();
}

#[tokio::test]
async fn a_file_does_not_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks");
    let file = File::open(&path).unwrap();
    for round in 0..20_u64 {
        let tasks: Vec<_> = (0..100)
            .map(|number| file.save(task(round * 100 + number, 2000)))
            .collect();
        for saving in tasks {
            saving.await.unwrap();
        }
        for number in 1..100 {
            file.delete(task(round * 100 + number, 0).id).await.unwrap();
        }
    }
    file.close().await.unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    // 4 MB were saved, 40 kB are left.
    assert!(bytes < 1_500_000, "{bytes}");
    assert_eq!(loaded(&path).await.len(), 20);
}

#[tokio::test]
async fn a_closed_file_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::open(folder.path().join("tasks")).unwrap();
    file.close().await.unwrap();
    let error = file.save(task(1, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert!(File::open(folder.path().join("missing/tasks")).is_err());
}
