"""Connect's single message transformations: 16 of them, 26 classes with those for keys and values.

    transform_base          configuration, keys and values, the schemas derived so far
    field_paths             names of fields, nested ones too
    cast_transform          Cast
    field_transforms        ExtractField, HoistField, ValueToKey
    flatten_transform       Flatten
    header_transforms       DropHeaders, HeaderFrom, InsertHeader
    insert_transform        InsertField
    mask_transform          MaskField
    replace_transform       ReplaceField
    routing_transforms      Filter, RegexRouter, TimestampRouter
    metadata_transform      SetSchemaMetadata
    timestamp_transform     TimestampConverter

What a transformation does to each schema, value and error is what Java's class of the same name
does; compat_tests compare the two on generated records. With a schema the order of fields is kept,
and without one the order of a map's keys is kept too, where Java has the order of a hash table.
"""
