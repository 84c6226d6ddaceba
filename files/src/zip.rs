//! The subset of ZIP that `.npz` needs:
//! <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>.
//!
//! A file is treated as hostile. Only the directory at its end is trusted, which must be right
//! before the end record; each part must come before the directory and claim no more bytes than its
//! compressed data can expand to. The checksum is verified while the part is read. Names are keys
//! into the archive, never paths.
//!
//! Archives are written with 64-bit sizes throughout, as NumPy does. Stored without compression,
//! they are byte for byte those that `numpy.savez` writes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use ir::sabotage::{self, Bug};

use super::error::Fault;

/// The methods of packing that `.npz` has.
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const END64_LOCATOR: u32 = 0x0706_4b50;

const LOCAL_LEN: usize = 30;
const CENTRAL_LEN: usize = 46;
const END_LEN: usize = 22;
const END64_LEN: usize = 56;
const LOCATOR_LEN: usize = 20;

/// Bytes of a directory: of a million arrays.
const DIRECTORY_LIMIT: u64 = 100_000_000;

/// The maximum number of bytes that one byte of deflate can expand to: a length of 258 takes at
/// least two bits.
const MOST: u64 = 1032;

/// A part of an archive, from the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub name: String,
    pub bytes: u64,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    /// Where its local header begins.
    at: u64,
}

/// The directory of an archive.
#[derive(Debug)]
pub(super) struct Directory {
    pub parts: Vec<Part>,
    /// Where it begins: the parts lie before.
    start: u64,
}

fn bad<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Zip(what.into()))
}

/// Reads little-endian numbers from the front of a slice.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let Some((head, rest)) = self.0.split_at_checked(count) else { return bad("a record ends early") };
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

fn read_at<R: Read + Seek>(file: &mut R, at: u64, into: &mut [u8]) -> Result<(), Fault> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(into).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Zip("a record lies outside of the file".to_owned()),
        _ => e.into(),
    })
}

impl Directory {
    /// Reads the directory of a file of `length` bytes.
    pub fn read<R: Read + Seek>(file: &mut R, length: u64) -> Result<Directory, Fault> {
        let end = End::read(file, length)?;
        if end.size > DIRECTORY_LIMIT {
            return Err(Fault::HeaderTooLong { found: end.size, limit: DIRECTORY_LIMIT });
        }
        // At most as long as the file: `End` has checked that.
        let mut bytes = vec![0; usize::try_from(end.size).unwrap_or(usize::MAX)];
        read_at(file, end.start, &mut bytes)?;
        let mut fields = Fields(&bytes);
        let mut parts = vec![];
        while !fields.0.is_empty() {
            parts.push(Part::read(&mut fields)?);
        }
        if parts.len() as u64 != end.count {
            return bad(format!("its directory has {} entries, {} are announced", parts.len(), end.count));
        }
        let mut names: Vec<&str> = parts.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Fault::DuplicateKey(pair[0].to_owned())),
            None => Ok(Directory { parts, start: end.start }),
        }
    }

    /// The uncompressed contents of a part. Reading to the end fails if the checksum differs.
    pub fn open(&self, mut file: File, part: &Part) -> Result<Checked, Fault> {
        if part.flags & 1 != 0 {
            return Err(Fault::ZipMethod("it is encrypted".to_owned()));
        }
        if part.method != STORED && part.method != DEFLATED {
            return Err(Fault::ZipMethod(format!("it is packed by method {}, not stored or deflated", part.method)));
        }
        if part.method == STORED && part.bytes != part.packed {
            return bad("a stored part has two sizes");
        }
        // A small archive must not make the reader allocate a huge array.
        if part.bytes.div_ceil(MOST) > part.packed {
            return Err(Fault::Ratio { claimed: part.bytes, packed: part.packed });
        }
        let mut header = [0; LOCAL_LEN];
        read_at(&mut file, part.at, &mut header)?;
        let mut fields = Fields(&header);
        let signature = fields.u32()?;
        fields.take(22)?;
        let (name_len, extra_len) = (fields.u16()?, fields.u16()?);
        let mut name = vec![0; usize::from(name_len)];
        if signature != LOCAL {
            return bad("a part is not where the directory says");
        }
        read_at(&mut file, part.at + LOCAL_LEN as u64, &mut name)?;
        if name != part.name.as_bytes() {
            return bad("a part has another name than the directory says");
        }
        // The length of the extra field may differ from the one in the directory, so the local
        // header decides.
        let start = part.at + LOCAL_LEN as u64 + u64::from(name_len) + u64::from(extra_len);
        if start.checked_add(part.packed).is_none_or(|end| end > self.start) {
            return bad("a part reaches into the directory");
        }
        file.seek(SeekFrom::Start(start))?;
        let packed = file.take(part.packed);
        let data: Box<dyn Read + Send> =
            if part.method == STORED { Box::new(packed) } else { Box::new(DeflateDecoder::new(packed)) };
        Ok(Checked { data: data.take(part.bytes), crc: Crc::new(), expected: part.crc, left: part.bytes })
    }
}

/// The end record: where the directory is.
struct End {
    start: u64,
    size: u64,
    count: u64,
}

impl End {
    fn read<R: Read + Seek>(file: &mut R, length: u64) -> Result<End, Fault> {
        // A comment may follow the record, up to the end of the file.
        let tail_len = length.min((END_LEN + usize::from(u16::MAX)) as u64);
        let mut tail = vec![0; usize::try_from(tail_len).unwrap_or_default()];
        read_at(file, length - tail_len, &mut tail)?;
        let is_end = |at: &usize| {
            tail[*at..].starts_with(&END.to_le_bytes())
                && tail.len() - at - END_LEN == usize::from(u16::from_le_bytes([tail[at + 20], tail[at + 21]]))
        };
        let places = tail.len().checked_sub(END_LEN).map(|last| (0..=last).rev());
        let Some(at) = places.and_then(|mut places| places.find(is_end)) else {
            return bad("it does not end as one");
        };
        let end_at = length - (tail.len() - at) as u64;
        let mut fields = Fields(&tail[at + 4..]);
        let disks = [fields.u16()?, fields.u16()?];
        let counts = [fields.u16()?, fields.u16()?];
        let (size, start) = (fields.u32()?, fields.u32()?);
        let (end, end_at) = if counts[1] == u16::MAX || size == u32::MAX || start == u32::MAX {
            End::read64(file, end_at)?
        } else if disks != [0, 0] || counts[0] != counts[1] {
            return bad("it is a part of a larger one");
        } else {
            (End { start: start.into(), size: size.into(), count: counts[0].into() }, end_at)
        };
        if end.start.checked_add(end.size) != Some(end_at) {
            return bad("its directory is not where the end record says");
        }
        if end.count > end.size / CENTRAL_LEN as u64 {
            return bad("its directory is too short for its entries");
        }
        Ok(end)
    }

    /// The record with 64-bit numbers, and where it begins.
    fn read64<R: Read + Seek>(file: &mut R, end_at: u64) -> Result<(End, u64), Fault> {
        let Some(locator_at) = end_at.checked_sub(LOCATOR_LEN as u64) else { return bad("it ends early") };
        let mut bytes = [0; LOCATOR_LEN];
        read_at(file, locator_at, &mut bytes)?;
        let mut fields = Fields(&bytes);
        let (signature, disk, at, disks) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u32()?);
        if signature != END64_LOCATOR || disk != 0 || disks > 1 {
            return bad("its 64-bit end record is missing");
        }
        if at.checked_add(END64_LEN as u64) != Some(locator_at) {
            return bad("its 64-bit end record is not where it should be");
        }
        let mut bytes = [0; END64_LEN];
        read_at(file, at, &mut bytes)?;
        let mut fields = Fields(&bytes);
        let signature = fields.u32()?;
        fields.take(20)?;
        let (here, count, size, start) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        if signature != END64 || here != count {
            return bad("its 64-bit end record is malformed");
        }
        Ok((End { start, size, count }, at))
    }
}

impl Part {
    fn read(fields: &mut Fields<'_>) -> Result<Part, Fault> {
        if fields.u32()? != CENTRAL {
            return bad("an entry of its directory is malformed");
        }
        fields.take(4)?;
        let (flags, method) = (fields.u16()?, fields.u16()?);
        fields.take(4)?;
        let crc = fields.u32()?;
        let sizes = [fields.u32()?, fields.u32()?];
        let (name_len, extra_len, comment_len) = (fields.u16()?, fields.u16()?, fields.u16()?);
        fields.take(8)?;
        let at = fields.u32()?;
        let name = fields.take(name_len.into())?;
        let extra = fields.take(extra_len.into())?;
        fields.take(comment_len.into())?;
        let Ok(name) = String::from_utf8(name.to_vec()) else { return bad("a name in it is not UTF-8") };
        let [bytes, packed, at] = wide([sizes[1], sizes[0], at], extra)?;
        Ok(Part { name, bytes, flags, method, crc, packed, at })
    }
}

/// The numbers that are all ones are found, with 64 bits, in the extra field of kind 1, in this
/// order.
fn wide(numbers: [u32; 3], extra: &[u8]) -> Result<[u64; 3], Fault> {
    let mut wide = numbers.map(u64::from);
    if !numbers.contains(&u32::MAX) {
        return Ok(wide);
    }
    let mut fields = Fields(extra);
    loop {
        let (kind, length) = (fields.u16()?, fields.u16()?);
        let mut body = Fields(fields.take(length.into())?);
        if kind == 1 {
            for number in wide.iter_mut().filter(|n| **n == u64::from(u32::MAX)) {
                *number = body.u64()?;
            }
            return Ok(wide);
        }
    }
}

/// A part's bytes. The end, after as many bytes as the directory says, is reached only if the
/// checksum is right.
pub(super) struct Checked {
    data: io::Take<Box<dyn Read + Send>>,
    crc: Crc,
    expected: u32,
    left: u64,
}

impl Read for Checked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        let count = self.data.read(into).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => damaged("it does not unpack"),
            _ => e,
        })?;
        self.crc.update(&into[..count]);
        self.left -= count as u64;
        match count {
            0 if self.left > 0 => Err(damaged("it unpacks to less than the directory says")),
            0 if self.data.get_mut().read(&mut [0])? > 0 => Err(damaged("it unpacks to more than the directory says")),
            0 if self.crc.sum() != self.expected => Err(damaged("its checksum is another")),
            _ => Ok(count),
        }
    }
}

/// A writer of archives. Each part's bytes are passed completely, in pieces.
pub(super) struct Writer<W: Write> {
    to: W,
    at: u64,
    central: Vec<u8>,
    count: u64,
    /// Greater numbers have 64 bits in the directory.
    limit: u64,
}

/// How the arrays of a `.npz` file are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// As they are, like `numpy.savez`.
    #[default]
    Stored,
    /// Compressed, like `numpy.savez_compressed`.
    Deflated,
}

/// Up to this size, NumPy's writer (Python's `zipfile`) uses 32-bit numbers in the directory.
pub(super) const LIMIT: u64 = (1 << 31) - 1;

/// The length of an extra field, which has at most three numbers.
fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// A writer that computes the checksum and counts the bytes written.
struct Sum {
    crc: Crc,
    bytes: u64,
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !sabotage::on(Bug::Checksum) {
            self.crc.update(bytes);
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// 1 January 1980, midnight, so that the same data gives the same bytes.
const DATE: u32 = 0x0021_0000;

impl<W: Write> Writer<W> {
    pub fn new(to: W, limit: u64) -> Writer<W> {
        Writer { to, at: 0, central: vec![], count: 0, limit }
    }

    /// The number, or the mark that its 64-bit value is elsewhere.
    fn narrow(&self, n: u64) -> u32 {
        u32::try_from(n).ok().filter(|_| n <= self.limit).unwrap_or(u32::MAX)
    }

    /// Adds a part. The compressed form is made in memory, since its length comes first. `content`
    /// writes the part's bytes, and is called twice, because the checksum precedes them.
    pub fn add(
        &mut self,
        name: &str,
        content: &dyn Fn(&mut dyn Write) -> io::Result<()>,
        packing: Packing,
    ) -> Result<(), Fault> {
        let Ok(name_len) = u16::try_from(name.len()) else { return Err(Fault::KeyName(name.to_owned())) };
        let mut sum = Sum { crc: Crc::new(), bytes: 0 };
        content(&mut sum)?;
        let Sum { crc, bytes } = sum;
        let deflated = match packing {
            Packing::Stored => None,
            Packing::Deflated => {
                let mut encoder = DeflateEncoder::new(vec![], Compression::default());
                content(&mut encoder)?;
                Some(encoder.finish()?)
            }
        };
        let (method, packed) = deflated.as_ref().map_or((STORED, bytes), |data| (DEFLATED, data.len() as u64));
        let flags: u16 = if name.is_ascii() { 0 } else { 0x800 };
        let common = |version: u16| {
            let mut record = vec![];
            for field in [version, flags, method] {
                record.extend(field.to_le_bytes());
            }
            for field in [DATE, crc.sum()] {
                record.extend(field.to_le_bytes());
            }
            record
        };
        let mut local = LOCAL.to_le_bytes().to_vec();
        local.extend(common(45));
        // The sizes are in an extra field with 64 bits, whether or not they need them, as NumPy
        // writes them.
        local.extend([u32::MAX; 2].map(u32::to_le_bytes).as_flattened());
        local.extend([name_len, 20].map(u16::to_le_bytes).as_flattened());
        local.extend(name.as_bytes());
        local.extend([1, 16].map(u16::to_le_bytes).as_flattened());
        local.extend([bytes, packed].map(u64::to_le_bytes).as_flattened());
        self.to.write_all(&local)?;
        match &deflated {
            Some(data) => self.to.write_all(data)?,
            None => content(&mut self.to)?,
        }
        let mut extra: Vec<u8> = vec![];
        let wide = bytes.max(packed) > self.limit;
        if wide {
            extra.extend([bytes, packed].map(u64::to_le_bytes).as_flattened());
        }
        if self.at > self.limit {
            extra.extend(self.at.to_le_bytes());
        }
        if !extra.is_empty() {
            let length = short(extra.len());
            extra.splice(0..0, [1, length].map(u16::to_le_bytes).as_flattened().to_vec());
        }
        // Either both sizes are in the extra field or neither, as in the files of Python.
        let narrow = |n| if wide { u32::MAX } else { self.narrow(n) };
        let (narrow_packed, narrow_bytes, narrow_at) = (narrow(packed), narrow(bytes), self.narrow(self.at));
        let central = &mut self.central;
        central.extend(CENTRAL.to_le_bytes());
        central.extend([45, 3]);
        central.extend(common(45));
        central.extend([narrow_packed, narrow_bytes].map(u32::to_le_bytes).as_flattened());
        central.extend([name_len, short(extra.len()), 0, 0, 0].map(u16::to_le_bytes).as_flattened());
        central.extend([0o600 << 16, narrow_at].map(u32::to_le_bytes).as_flattened());
        central.extend(name.as_bytes());
        central.extend(extra);
        self.count += 1;
        self.at += local.len() as u64 + packed;
        Ok(())
    }

    /// Writes the directory.
    pub fn finish(mut self) -> Result<W, Fault> {
        let (start, size) = (self.at, self.central.len() as u64);
        self.to.write_all(&self.central)?;
        let mut end = vec![];
        if self.count > u16::MAX.into() || start > self.limit || size > self.limit {
            end.extend(END64.to_le_bytes());
            end.extend((END64_LEN as u64 - 12).to_le_bytes());
            end.extend([45, 45].map(u16::to_le_bytes).as_flattened());
            end.extend([0; 2].map(u32::to_le_bytes).as_flattened());
            end.extend([self.count, self.count, size, start].map(u64::to_le_bytes).as_flattened());
            end.extend([END64_LOCATOR, 0].map(u32::to_le_bytes).as_flattened());
            end.extend((start + size).to_le_bytes());
            end.extend(1u32.to_le_bytes());
        }
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        end.extend(END.to_le_bytes());
        end.extend([0, 0, count, count].map(u16::to_le_bytes).as_flattened());
        end.extend([self.narrow(size), self.narrow(start)].map(u32::to_le_bytes).as_flattened());
        end.extend(0u16.to_le_bytes());
        self.to.write_all(&end)?;
        Ok(self.to)
    }
}
