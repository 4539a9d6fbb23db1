//! Damage to the bytes of the file.

use super::*;

#[test]
fn damaged_index_pages_cost_nothing() {
    let victim = Victim::new();
    // Tables without row ids look like indexes; they are damaged elsewhere.
    let conn = reading(&victim.path());
    let mut keyed = conn
        .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND wr = 1")
        .unwrap();
    let keyed: Vec<usize> = keyed
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .flat_map(|table| pages_of(&table.unwrap(), &victim.path()))
        .collect();
    let mut dice = Dice(1);
    let mut hit = 0;
    let damaged = victim.damaged(|bytes| {
        for number in 1..bytes.len() / PAGE {
            if is_index(bytes, number) && !keyed.contains(&number) {
                for _ in 0..50 {
                    bytes[number * PAGE + dice.roll(PAGE)] = dice.roll(256) as u8;
                }
                hit += 1;
            }
        }
    });
    assert!(hit > 10, "{hit}");
    let (salvaged, saved) = damaged.salvage();
    assert_eq!(salvaged.lost, [""; 0]);
    assert!(saved == victim.picture);
}

#[test]
fn a_lost_transcript_row_is_made_from_the_messages() {
    let victim = Victim::new();
    let pages = pages_of("transcripts", &victim.path());
    let damaged = victim.damaged(|bytes| {
        for page in pages {
            bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5);
        }
    });
    let (salvaged, saved) = damaged.salvage();
    assert!(
        salvaged
            .lost
            .iter()
            .all(|what| what.starts_with("transcripts: "))
    );
    assert!(saved == victim.picture);
    let (before, after) = (rows(&victim.path()), rows(&damaged.to()));
    let live: Vec<Value> = victim
        .picture
        .sessions
        .keys()
        .map(|id| Value::Integer(*id))
        .collect();
    let but_stored_ms = |rows: &Vec<Vec<Value>>| -> Vec<Vec<Value>> {
        let rows = rows.iter().filter(|row| live.contains(&row[0]));
        rows.map(|row| row[..8].to_vec()).collect()
    };
    assert_eq!(
        but_stored_ms(&before["transcripts"]),
        but_stored_ms(&after["transcripts"])
    );
}

/// How many different damages are tried; TURNKEEP_TEST_SEEDS asks for more.
fn seeds() -> u64 {
    std::env::var("TURNKEEP_TEST_SEEDS").map_or(8, |seeds| seeds.parse().unwrap())
}

#[test]
fn damage_to_random_pages_is_survived_and_told() {
    let victim = Victim::new();
    let (mut kept, mut there) = (0, 0);
    for seed in 0..seeds() {
        let mut dice = Dice(seed);
        let damaged = victim.damaged(|bytes| {
            let pages = bytes.len() / PAGE;
            for _ in 0..=dice.roll(12) {
                let number = dice.roll(pages);
                let head = head_of(number);
                let end = (number + 1) * PAGE;
                let cells = usize::from(u16::from_be_bytes([bytes[head + 3], bytes[head + 4]]));
                let is_tree = matches!(bytes[head], 0x02 | 0x05 | 0x0a | 0x0d);
                match dice.roll(4) {
                    // A page of another file, a page of zeros, noise in the page's head or its pointers to cells.
                    0 => bytes[head..end].fill_with(|| dice.roll(256) as u8),
                    1 => bytes[head..end].fill(0),
                    2 if is_tree => bytes[head + dice.roll(8)] ^= 1 << dice.roll(8),
                    3 if is_tree && cells > 0 => {
                        bytes[head + 8 + dice.roll(2 * cells)] ^= 1 << dice.roll(8);
                    }
                    // Texts that go on there have no checksum; see below.
                    _ => {}
                }
            }
        });
        let (salvaged, saved) = damaged.salvage();
        compare(&format!("seed {seed}"), &victim.picture, &salvaged, &saved);
        kept += saved.entries();
        there += victim.picture.entries();
    }
    assert!(
        kept * 100 > there * 80,
        "{kept} of {there} entries were saved"
    );
}

#[test]
fn a_byte_changed_within_an_imported_text_is_told() {
    let victim = Victim::with(|store| {
        import(store, &fixture_path("transcripts/files_raw"));
    });
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let damaged = victim.damaged(|bytes| {
            let at = PAGE + dice.roll(bytes.len() - PAGE);
            bytes[at] ^= 1 << dice.roll(8);
        });
        let (salvaged, saved) = damaged.salvage();
        for (number, shown) in &saved.sessions {
            let before = victim
                .picture
                .sessions
                .get(number)
                .map(|before| &before.lines);
            assert!(
                Some(&shown.lines) == before || !salvaged.lost.is_empty(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn rows_are_found_when_the_way_to_them_is_lost() {
    let victim = Victim::new();
    let root = root_of("messages", &victim.path());
    for page in [0, root] {
        let damaged = victim.damaged(|bytes| {
            assert!(page == 0 || bytes[page * PAGE] == 5, "an interior page");
            bytes[head_of(page)..(page + 1) * PAGE].fill(0);
        });
        let (salvaged, saved) = damaged.salvage();
        assert!(saved == victim.picture, "{page}: {:?}", salvaged.lost);
        assert!(!salvaged.lost.is_empty());
    }
}

#[test]
fn the_first_half_of_a_cut_file_is_saved() {
    let victim = Victim::new();
    let length = fs::metadata(victim.path()).unwrap().len() as usize;
    for cut in [
        length / 2 / PAGE * PAGE,
        length / 2 / PAGE * PAGE + 3000,
        length - 5,
    ] {
        let damaged = victim.damaged(|bytes| bytes.truncate(cut));
        let (salvaged, saved) = damaged.salvage();
        compare(&format!("cut at {cut}"), &victim.picture, &salvaged, &saved);
        assert!(
            salvaged.lost[0].contains("end of the file"),
            "{:?}",
            salvaged.lost
        );
        assert!(
            saved.entries() * 5 > victim.picture.entries(),
            "{}",
            saved.entries()
        );
    }
}

#[test]
fn an_overwritten_header_is_written_anew_in_the_copy() {
    let victim = Victim::new();
    let damages: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[..100].fill(0),
        |bytes| bytes[..100].fill(0xff),
        |bytes| bytes[16] ^= 0x10,
        |bytes| bytes[68] ^= 0x10,
    ];
    for damage in damages {
        let damaged = victim.damaged(damage);
        assert!(Store::open(damaged.from()).is_err());
        let (salvaged, saved) = damaged.salvage();
        assert!(saved == victim.picture);
        assert_eq!(salvaged.lost.len(), 1);
        assert!(salvaged.lost[0].contains("header"), "{:?}", salvaged.lost);
        assert_eq!(rows(&victim.path()), rows(&damaged.to()));
    }
}

#[test]
fn what_was_deleted_does_not_come_back() {
    let victim = Victim::new();
    let damaged = victim.damaged(|bytes| bytes[head_of(0)..PAGE].fill(0));
    damaged.salvage();
    let deleted = |path: &Path| -> i64 {
        let sql = "SELECT count(*) FROM messages
             WHERE session NOT IN (SELECT id FROM sessions WHERE deleted_ms IS NULL)";
        reading(path).query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert!(deleted(&victim.path()) > 0, "what forks show");
    assert_eq!(deleted(&damaged.to()), deleted(&victim.path()));
}
