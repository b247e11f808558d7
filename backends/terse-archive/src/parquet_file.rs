//! The Parquet form of clicks.
//!
//! Rows are in the order of code, domain and time, so that the clicks of a link are side by side.
//! `code` and `owner` have Bloom filters: a search reads only files and groups of rows that may
//! hold the link or the owner.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{BloomFilterPosition, ReaderProperties, WriterProperties};
use parquet::file::reader::{ChunkReader, FileReader as _, RowGroupReader};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use terse_core::clicks::{BotKind, ClickKind, REPEAT};

use crate::table::{CODE, ClickTable, DOMAIN, FIRST_OPTIONAL, TEXTS, TableRow};

const SCHEMA: &str = "message clicks {
    required int64 time (timestamp(millis, true));
    required binary domain (string);
    required binary code (string);
    required int64 link_created_at (timestamp(millis, true));
    required int64 owner (integer(64, false));
    required int32 weight (integer(32, false));
    required int64 took_nanos (integer(64, false));
    required binary kind (string);
    required boolean went_on;
    optional int64 visitor (integer(64, false));
    optional binary address (string);
    optional binary referrer (string);
    optional binary country (string);
    optional binary city (string);
    optional binary device (string);
    optional binary browser (string);
    optional binary system (string);
    optional binary language (string);
    optional binary utm_source (string);
    optional binary utm_medium (string);
    optional binary utm_campaign (string);
    optional binary utm_term (string);
    optional binary utm_content (string);
}";
const OWNER_COLUMN: usize = 4;
const CODE_COLUMN: usize = 2;
/// The first column with a text that may be unknown.
const FIRST_TEXT_COLUMN: usize = 10;
/// Rows that are compressed together.
const GROUP: usize = 65_536;
const LEVEL: i32 = 3;
/// The version of the columns.
const VERSION: &str = "1";
const HUMAN: &str = "human";

/// Which groups of rows, and which clicks, to read.
pub(crate) trait Filter {
    /// Whether a group of rows may hold such a click, by its Bloom filters.
    fn may_hold(&self, group: &GroupFilter<'_>) -> bool;
    /// Whether to read this click.
    fn keeps(&self, table: &ClickTable, row: &TableRow) -> bool;
}

/// What is known of a group of rows without reading it.
pub(crate) struct GroupFilter<'a>(&'a dyn RowGroupReader);

impl GroupFilter<'_> {
    /// Whether it may hold clicks of a link with this code.
    pub(crate) fn may_hold_code(&self, code: &str) -> bool {
        let filter = self.0.get_column_bloom_filter(CODE_COLUMN);
        filter.is_none_or(|filter| filter.check(&ByteArray::from(code)))
    }

    /// Whether it may hold clicks of links of this owner.
    pub(crate) fn may_hold_owner(&self, owner: u64) -> bool {
        let filter = self.0.get_column_bloom_filter(OWNER_COLUMN);
        filter.is_none_or(|filter| filter.check(&owner.cast_signed()))
    }
}

/// Reads everything.
pub(crate) struct All;

impl Filter for All {
    fn may_hold(&self, _: &GroupFilter<'_>) -> bool {
        true
    }

    fn keeps(&self, _: &ClickTable, _: &TableRow) -> bool {
        true
    }
}

/// The word of a kind in the column `kind`.
pub(crate) fn kind_word(kind: ClickKind) -> &'static str {
    match kind.bot() {
        Some(bot) => bot.as_str(),
        None if kind == ClickKind::REPEAT => REPEAT,
        None => HUMAN,
    }
}

fn kind_of(word: &str) -> Result<ClickKind> {
    match word {
        HUMAN => Ok(ClickKind::HUMAN),
        REPEAT => Ok(ClickKind::REPEAT),
        word => BotKind::parse(word)
            .map(ClickKind::of_bot)
            .ok_or_else(|| ParquetError::General(format!("{word:?} is not a kind of click"))),
    }
}

/// A file with these clicks. The same clicks give the same file.
pub(crate) fn write(table: &ClickTable) -> Result<Bytes> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let column = |name: &str| ColumnPath::from(name);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_created_by("terse".to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(
            "terse.version".to_owned(),
            VERSION.to_owned(),
        )]))
        .set_column_bloom_filter_enabled(column("code"), true)
        .set_column_bloom_filter_max_ndv(column("code"), GROUP as u64)
        .set_column_bloom_filter_enabled(column("owner"), true)
        .set_column_bloom_filter_max_ndv(column("owner"), GROUP as u64)
        .set_bloom_filter_position(BloomFilterPosition::End)
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    // A text is made once, however many rows have it.
    let mut texts = TextCache::default();
    for rows in table.rows.chunks(GROUP) {
        let mut group = writer.next_row_group()?;
        write_group(&mut group, table, rows, &mut texts)?;
        group.close()?;
    }
    writer.into_inner().map(Bytes::from)
}

#[derive(Default)]
struct TextCache(std::collections::HashMap<u32, ByteArray>);

impl TextCache {
    fn get(&mut self, table: &ClickTable, number: u32) -> ByteArray {
        let text = || ByteArray::from(table.text(number).map_or("", |text| text));
        self.0.entry(number).or_insert_with(text).clone()
    }
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn write_group(
    group: &mut Group<'_>,
    table: &ClickTable,
    rows: &[TableRow],
    texts: &mut TextCache,
) -> Result<()> {
    let numbers = |of: fn(&TableRow) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
    let mut words = |column: usize| -> Vec<ByteArray> {
        rows.iter().map(|row| texts.get(table, row.texts[column])).collect()
    };
    column::<Int64Type>(group, &numbers(|row| row.at), None)?;
    column::<ByteArrayType>(group, &words(DOMAIN), None)?;
    column::<ByteArrayType>(group, &words(CODE), None)?;
    column::<Int64Type>(group, &numbers(|row| row.link_created_at), None)?;
    column::<Int64Type>(group, &numbers(|row| row.owner.cast_signed()), None)?;
    let weights: Vec<i32> = rows.iter().map(|row| row.weight.cast_signed()).collect();
    column::<Int32Type>(group, &weights, None)?;
    column::<Int64Type>(group, &numbers(|row| row.took_nanos.cast_signed()), None)?;
    let kinds: Vec<ByteArray> =
        rows.iter().map(|row| ByteArray::from(kind_word(row.kind))).collect();
    column::<ByteArrayType>(group, &kinds, None)?;
    let went_on: Vec<bool> = rows.iter().map(|row| row.went_on).collect();
    column::<BoolType>(group, &went_on, None)?;
    let known = |is_known: &dyn Fn(&TableRow) -> bool| -> Vec<i16> {
        rows.iter().map(|row| i16::from(is_known(row))).collect()
    };
    let visitors = rows.iter().filter(|row| row.visitor != 0);
    let visitors: Vec<i64> = visitors.map(|row| row.visitor.cast_signed()).collect();
    column::<Int64Type>(group, &visitors, Some(&known(&|row| row.visitor != 0)))?;
    for at in FIRST_OPTIONAL..TEXTS.len() {
        let given = rows.iter().filter(|row| row.texts[at] != 0);
        let given: Vec<ByteArray> = given.map(|row| texts.get(table, row.texts[at])).collect();
        column::<ByteArrayType>(group, &given, Some(&known(&|row| row.texts[at] != 0)))?;
    }
    Ok(())
}

/// Writes the next column. `levels` has a 1 for every row with a value.
fn column<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the file has fewer columns than a click".into());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    writer.typed::<T>().write_batch(values, levels, None)?;
    writer.close()
}

/// A file that is open for reading.
pub(crate) struct ClickFile<R: ChunkReader + 'static> {
    reader: SerializedFileReader<R>,
}

impl<R: ChunkReader + 'static> ClickFile<R> {
    /// Reads the end of a file, and refuses one that terse did not write.
    pub(crate) fn open(file: R) -> Result<Self> {
        let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
        let options = ReadOptionsBuilder::new().with_reader_properties(properties).build();
        let reader = SerializedFileReader::new_with_options(file, options)?;
        let metadata = reader.metadata().file_metadata();
        let found: Vec<&str> =
            metadata.schema_descr().columns().iter().map(|column| column.name()).collect();
        let known = parse_message_type(SCHEMA)?;
        let known: Vec<&str> = known.get_fields().iter().map(|field| field.name()).collect();
        if found != known {
            return Err(ParquetError::General("the file has other columns than clicks".into()));
        }
        Ok(Self { reader })
    }

    /// How many clicks it has.
    pub(crate) fn len(&self) -> u64 {
        let rows = self.reader.metadata().file_metadata().num_rows();
        rows.cast_unsigned()
    }

    /// Whether any group of rows may hold such a click.
    pub(crate) fn may_hold(&self, filter: &dyn Filter) -> Result<bool> {
        for number in 0..self.reader.num_row_groups() {
            let group = self.reader.get_row_group(number)?;
            if filter.may_hold(&GroupFilter(&*group)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends the clicks that the filter keeps.
    pub(crate) fn read_into(&self, table: &mut ClickTable, filter: &dyn Filter) -> Result<()> {
        for number in 0..self.reader.num_row_groups() {
            let group = self.reader.get_row_group(number)?;
            if filter.may_hold(&GroupFilter(&*group)) {
                read_group(&*group, table, filter)?;
            }
        }
        Ok(())
    }
}

fn read_group(
    group: &dyn RowGroupReader,
    table: &mut ClickTable,
    filter: &dyn Filter,
) -> Result<()> {
    let count = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut rows = vec![TableRow::default(); count];
    let mut plain = |at: usize, set: fn(&mut TableRow, i64)| -> Result<()> {
        let values = required::<Int64Type>(int64(group, at)?, count)?;
        rows.iter_mut().zip(values).for_each(|(row, value)| set(row, value));
        Ok(())
    };
    plain(0, |row, value| row.at = value)?;
    plain(3, |row, value| row.link_created_at = value)?;
    plain(OWNER_COLUMN, |row, value| row.owner = value.cast_unsigned())?;
    plain(6, |row, value| row.took_nanos = value.cast_unsigned())?;
    for (at, text) in [(1, DOMAIN), (CODE_COLUMN, CODE)] {
        let values = required::<ByteArrayType>(bytes(group, at)?, count)?;
        for (row, value) in rows.iter_mut().zip(&values) {
            row.texts[text] = table.number(value.as_utf8()?);
        }
    }
    let ColumnReader::Int32ColumnReader(weights) = group.get_column_reader(5)? else {
        return Err(wrong_type(5));
    };
    let weights = required::<Int32Type>(weights, count)?;
    rows.iter_mut().zip(weights).for_each(|(row, value)| row.weight = value.cast_unsigned());
    let kinds = required::<ByteArrayType>(bytes(group, 7)?, count)?;
    for (row, value) in rows.iter_mut().zip(&kinds) {
        row.kind = kind_of(value.as_utf8()?)?;
    }
    let ColumnReader::BoolColumnReader(went_on) = group.get_column_reader(8)? else {
        return Err(wrong_type(8));
    };
    let went_on = required::<BoolType>(went_on, count)?;
    rows.iter_mut().zip(went_on).for_each(|(row, value)| row.went_on = value);
    let visitors = optional::<Int64Type>(int64(group, 9)?, count)?;
    for (row, value) in rows.iter_mut().zip(visitors) {
        row.visitor = value.map_or(0, i64::cast_unsigned);
    }
    for at in FIRST_OPTIONAL..TEXTS.len() {
        let column = FIRST_TEXT_COLUMN + at - FIRST_OPTIONAL;
        let values = optional::<ByteArrayType>(bytes(group, column)?, count)?;
        for (row, value) in rows.iter_mut().zip(values) {
            if let Some(value) = value {
                row.texts[at] = table.number(value.as_utf8()?);
            }
        }
    }
    let kept = rows.into_iter().filter(|row| filter.keeps(table, row)).collect::<Vec<_>>();
    table.rows.extend(kept);
    Ok(())
}

fn wrong_type(column: usize) -> ParquetError {
    ParquetError::General(format!("column {column} has another type"))
}

fn int64(group: &dyn RowGroupReader, at: usize) -> Result<ColumnReaderImpl<Int64Type>> {
    match group.get_column_reader(at)? {
        ColumnReader::Int64ColumnReader(reader) => Ok(reader),
        _ => Err(wrong_type(at)),
    }
}

fn bytes(group: &dyn RowGroupReader, at: usize) -> Result<ColumnReaderImpl<ByteArrayType>> {
    match group.get_column_reader(at)? {
        ColumnReader::ByteArrayColumnReader(reader) => Ok(reader),
        _ => Err(wrong_type(at)),
    }
}

fn required<T: DataType>(mut reader: ColumnReaderImpl<T>, count: usize) -> Result<Vec<T::T>> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let (records, ..) = reader.read_records(count - values.len(), None, None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF("a column has too few values".into()));
        }
    }
    Ok(values)
}

fn optional<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    count: usize,
) -> Result<Vec<Option<T::T>>> {
    let (mut values, mut levels) = (Vec::new(), Vec::with_capacity(count));
    while levels.len() < count {
        let left = count - levels.len();
        let (records, ..) = reader.read_records(left, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF("a column has too few values".into()));
        }
    }
    let mut values = values.into_iter();
    Ok(levels.iter().map(|level| if *level == 0 { None } else { values.next() }).collect())
}
