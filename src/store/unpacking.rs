//! Unpacking what a row holds of a content.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

/// Contents that unpack to no more than this are unpacked at once.
const AT_ONCE: u64 = 1 << 20;

thread_local! {
    /// Made once a thread: that costs more than to unpack a small content.
    static UNPACKING: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// What a content is, by how it is encoded; if it cannot be unpacked, why.
pub(super) fn decode(encoding: &str, content: &[u8]) -> Result<Vec<u8>, &'static str> {
    const BROKEN: &str = "cannot be unpacked";
    if encoding != "zstd" {
        return Ok(content.to_vec());
    }
    let length = zstd::zstd_safe::get_frame_content_size(content);
    let Some(length) = length.ok().flatten().filter(|length| *length <= AT_ONCE) else {
        return zstd::decode_all(content).map_err(|_| BROKEN);
    };
    UNPACKING.with_borrow_mut(|unpacking| {
        let unpacking = match unpacking {
            Some(unpacking) => unpacking,
            none => none.insert(Decompressor::new().map_err(|_| BROKEN)?),
        };
        let length = usize::try_from(length).map_err(|_| BROKEN)?;
        unpacking.decompress(content, length).map_err(|_| BROKEN)
    })
}
