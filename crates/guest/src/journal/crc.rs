//! The checksum of records: CRC-32 as of IEEE 802.3.

const TABLE: [u32; 256] = table();

#[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// Returns the checksum of `bytes`.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc: u32, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_standard_one() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    }
}
