//! Write-ahead logs with wrong bytes in them: torn, stale, garbled.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use logic::ids::{LeaderEpoch, Offset};

use super::harness::*;
use crate::storage::checkpoint::Checkpoint;
use crate::storage::frame::{self, BLOCK, CommitHead, FrameHead, Kind, Place, WalId};
use crate::storage::{fuzz, place};

/// Two partitions with `commits` commits of one batch each, alternating; nothing else is written.
fn two_partitions(commits: i64) -> (TempDir, Vec<Vec<u8>>) {
    let dir = TempDir::new();
    let path = dir.0.clone();
    let all = run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let mut logs = Vec::new();
        for index in 0..2 {
            let made = storage.create(id(index), "topic", config(1 << 20), 0).await;
            logs.push(made.expect("created"));
        }
        let mut all = vec![Vec::new(), Vec::new()];
        for at in 0..commits {
            let which = (at % 2) as usize;
            all[which].extend(append(&logs[which], 1, at, &[at as u8; 100], true));
            durable(&storage, &logs).await;
        }
        all
    });
    let copy = dir.snapshot();
    (copy, all)
}

/// The extent that holds everything, and the log's id.
fn extent(dir: &Path) -> (PathBuf, WalId) {
    let wal = fs::read_dir(dir.join("wal"))
        .expect("wal")
        .map(|entry| entry.expect("entry").path())
        .find(|path| path.is_dir())
        .expect("a log");
    let name = wal
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    let (_, id) = place::parse_wal_name(name).expect("a log's name");
    (wal.join("00000000.extent"), id)
}

/// Changes one byte of the commit with this number, at this distance from its start.
fn garble(dir: &Path, sequence: u64, distance: usize) {
    let (path, wal) = extent(dir);
    let mut bytes = fs::read(&path).expect("an extent");
    let mut at = 0;
    while at < bytes.len() {
        match frame::read(&bytes[at..], wal) {
            Ok(Some(commit)) if commit.head.sequence == sequence => {
                bytes[at + distance] ^= 0x55;
                fs::write(&path, bytes).expect("written");
                return;
            }
            Ok(Some(commit)) => at += commit.len,
            _ => at += BLOCK,
        }
    }
    panic!("no commit {sequence}");
}

#[test]
fn a_torn_last_commit_is_not_there_and_no_damage() {
    let (dir, all) = two_partitions(10);
    garble(&dir.0, 10, frame::HEAD_BYTES + 5);
    let last = batch(1, 0, &[0; 100]).len();
    let shorter = all[1].len() - last;
    check_recovers(&dir.0, vec![all[0].clone(), all[1][..shorter].to_vec()]);
}

#[test]
fn a_wrong_byte_in_what_was_durable_is_declared_and_harms_nobody_else() {
    let (dir, all) = two_partitions(10);
    // Commit 5 is of partition 0; its header survives, so it is known whose it was.
    garble(&dir.0, 5, frame::HEAD_BYTES + 5);
    for _ in 0..2 {
        let recovery = recovered(&dir.0);
        assert_eq!(recovery.damaged.len(), 1);
        assert_eq!(recovery.damaged[0].id, Some(id(0)));
        assert_eq!(recovery.logs.len(), 1);
        assert_eq!(recovery.logs[0].id(), id(1));
        assert_eq!(recovery.logs[0].log_end(), Offset(5));
    }
    drop(all);
}

#[test]
fn a_durable_commit_of_nobody_knows_whom_casts_doubt_on_all() {
    let (dir, _) = two_partitions(10);
    garble(&dir.0, 5, 60);
    let recovery = recovered(&dir.0);
    assert_eq!((recovery.logs.len(), recovery.damaged.len()), (0, 2));
    let (dir, _) = two_partitions(10);
    garble(&dir.0, 9, 60);
    let recovery = recovered(&dir.0);
    let what = "the last commit but one was not known to be durable to the last";
    assert!(
        recovery.damaged.len() == 2 || recovery.logs.len() == 2,
        "{what}"
    );
}

#[test]
fn a_lost_commit_of_nobody_knows_whom_casts_doubt_on_those_known_by_their_files_alone() {
    let (dir, _) = two_partitions(1);
    let path = dir.0.clone();
    let recovery = recovered(&path);
    // A clean stop: from here on partition 0 is known by its files.
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        attach_all(&storage, recovery.logs, config(1 << 20)).await;
        storage.close().await;
    });
    let path = dir.0.clone();
    let recovery = recovered(&path);
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        let logs = attach_all(&storage, recovery.logs, config(1 << 20)).await;
        for which in [0, 1, 1, 1] {
            append(&logs[which], 1, 0, &[7; 100], true);
            durable(&storage, &logs).await;
        }
    });
    // The commit that was partition 0's only one says no more whose it was.
    garble(&dir.0, 1, 60);
    let recovery = recovered(&dir.0);
    // What partition 1 lost, if anything, a later checkpoint of its own holds.
    let ids: Vec<_> = recovery.damaged.iter().map(|at| at.id).collect();
    assert_eq!(ids, [Some(id(0))], "{:?}", recovery.damaged);
    // It is not forgotten by the start after that.
    assert_eq!(recovered(&dir.0).damaged.len(), 1);
}

#[test]
fn zeros_after_the_last_commit_mean_the_end() {
    let (dir, all) = two_partitions(4);
    let (path, _) = extent(&dir.0);
    let mut bytes = fs::read(&path).expect("an extent");
    bytes.extend(vec![0; 1 << 20]);
    fs::write(&path, bytes).expect("written");
    check_recovers(&dir.0, all);
}

#[test]
fn a_record_that_looks_like_a_frame_is_none() {
    let (dir, all) = two_partitions(2);
    // Behind the last commit, what another log's commit would look like.
    let (path, _) = extent(&dir.0);
    let mut bytes = fs::read(&path).expect("an extent");
    let forged = commit(WalId([1; 16]), 3, &[(Kind::Data, vec![1; 100])]);
    bytes[2 * BLOCK..2 * BLOCK + forged.len()].copy_from_slice(&forged);
    fs::write(&path, bytes).expect("written");
    check_recovers(&dir.0, all);
}

#[test]
fn a_segment_with_a_wrong_byte_is_declared_when_it_must_be_read() {
    let (dir, all) = two_partitions(6);
    let path = dir.0.clone();
    let recovery = recovered(&path);
    run(move |reactor| async move {
        let storage = opened(&reactor, &path).await;
        attach_all(&storage, recovery.logs, config(1 << 20)).await;
        storage.close().await;
    });
    let partition = dir.0.join("logs").join(place::log_name("topic", id(0)));
    let segment = partition.join(format!("{}.log", place::segment_name(Offset(0))));
    let mut bytes = fs::read(&segment).expect("a segment");
    assert!(bytes == all[0]);
    bytes[150] ^= 1;
    fs::write(&segment, bytes).expect("written");
    fs::remove_file(partition.join(place::CHECKPOINT)).expect("removed");
    let recovery = recovered(&dir.0);
    let ids: Vec<_> = recovery.damaged.iter().map(|at| at.id).collect();
    assert_eq!(ids, [Some(id(0))], "{:?}", recovery.damaged);
}

/// A commit of the log with this id.
fn commit(wal: WalId, sequence: u64, frames: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let len: usize = frames
        .iter()
        .map(|(_, payload)| frame::frame_bytes(payload.len()))
        .sum();
    let mut out = vec![0; len.next_multiple_of(BLOCK)];
    let head = CommitHead {
        generation: 1,
        sequence,
        durable: sequence - 1,
        needed: 1,
    };
    let mut at = 0;
    for (number, (kind, payload)) in frames.iter().enumerate() {
        let frame = FrameHead {
            kind: *kind,
            partition: id(0),
            segment: Offset(0),
            position: 0,
            base_offset: Offset(0),
            end_offset: Offset(1),
            leader_epoch: LeaderEpoch(0),
            len: payload.len() as u32,
        };
        let place = Place {
            number: number as u32,
            last: number + 1 == frames.len(),
        };
        at = frame::write(&mut out, at, wal, &head, place, &frame, &[payload]);
    }
    out
}

#[test]
fn frames_read_back_and_no_changed_bit_goes_unnoticed() {
    let wal = WalId([3; 16]);
    let bytes = commit(wal, 7, &[(Kind::Data, vec![5; 100]), (Kind::Note, vec![])]);
    let read = frame::read(&bytes, wal).expect("sound").expect("a commit");
    assert_eq!(
        (read.head.sequence, read.frames.len(), read.len),
        (7, 2, BLOCK)
    );
    assert_eq!(bytes[read.frames[0].payload.clone()], [5; 100]);
    let used = frame::frame_bytes(100) + frame::HEAD_BYTES;
    for at in 0..used {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        let padding = (frame::HEAD_BYTES + 100..frame::frame_bytes(100)).contains(&at);
        let sound = matches!(frame::read(&wrong, wal), Ok(Some(_)));
        assert_eq!(sound, padding, "byte {at}");
    }
    assert!(
        matches!(frame::read(&bytes, WalId([4; 16])), Ok(None)),
        "another log's"
    );
}

#[test]
fn a_checkpoint_reads_back() {
    let mut checkpoint = Checkpoint {
        segment: Offset(40),
        position: 5_000,
        log_end: Offset(90),
        appended_ms: Some(1_700_000_000_000),
        tail_start: 4_096,
        tail: Bytes::from(vec![1; 904]),
        producers: Bytes::from_static(b"p"),
        ..Checkpoint::default()
    };
    checkpoint.epochs.begin(LeaderEpoch(2), Offset(7));
    let bytes = Bytes::from(checkpoint.encode());
    assert_eq!(Checkpoint::decode(&bytes), Some(checkpoint));
    for len in 0..bytes.len() {
        assert_eq!(Checkpoint::decode(&bytes.slice(..len)), None);
    }
}

#[test]
fn a_checkpoint_of_version_1_reads_as_one_that_does_not_know_when_was_appended() {
    let checkpoint = Checkpoint {
        log_end: Offset(90),
        created_ms: 17,
        ..Checkpoint::default()
    };
    let mut bytes = checkpoint.encode();
    bytes[..4].copy_from_slice(&1_u32.to_le_bytes());
    // Version, position, segment, log end, created: then it would follow.
    bytes.drain(32..40);
    assert_eq!(Checkpoint::decode(&bytes.into()), Some(checkpoint));
}

#[test]
fn hostile_extents_do_not_panic() {
    let wal = WalId([0; 16]);
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let checkpoint = Checkpoint {
        position: 200,
        tail: vec![0; 200].into(),
        ..Checkpoint::default()
    };
    let encoded = checkpoint.encode();
    for _ in 0..3_000 {
        let mut extent = Vec::new();
        for sequence in 1..4 {
            // Garbled before the checksums are made, so that they hold.
            let mut checkpoint = encoded.clone();
            let mut data = batch(1, 0, &[1; 50]);
            for _ in 0..next() % 3 {
                let at = next() as usize % checkpoint.len();
                checkpoint[at] = next() as u8;
                let at = next() as usize % data.len();
                data[at] = next() as u8;
            }
            let frames = [(Kind::Checkpoint, checkpoint), (Kind::Data, data)];
            extent.extend(commit(wal, sequence + next() % 2, &frames));
        }
        if next() % 2 == 0 {
            let at = next() as usize % extent.len();
            extent[at] ^= 1 << (next() % 8);
        }
        fuzz::recover_any(&extent);
    }
}
