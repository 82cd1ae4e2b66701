-- Chunk tables and the narrow functions through which a load, which owns nothing, gets its partition and its index.
-- Each takes integers and builds every name from them; none takes SQL, a name or a path.

create function zeroth.vector_schema() returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'
$$;
revoke all on function zeroth.vector_schema() from public;

create function zeroth.ensure_chunk_set(in_name text, in_dimension int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  set_id int;
begin
  perform pg_advisory_xact_lock(hashtextextended('zeroth.ensure_chunk_set', 0));
  select s.chunk_set_id into set_id from zeroth.chunk_set s where s.name = in_name and s.dimension = in_dimension;
  if set_id is not null then
    return set_id;
  end if;
  insert into zeroth.chunk_set (name, dimension) values (in_name, in_dimension) returning chunk_set_id into set_id;
  execute format($ddl$
    create table zeroth.chunk_%1$s (
      tenant_id int not null,
      chunk_id bigint not null,
      chunk_hash bytea not null,
      document_id text not null,
      document_version text not null,
      ordinal int not null,
      char_start int not null,
      char_end int not null,
      page_first int,
      page_last int,
      pages_real boolean not null,
      section_path text not null,
      token_count int not null,
      text text not null,
      tsv tsvector generated always as (to_tsvector('pg_catalog.english'::regconfig, text)) stored,
      embedding %2$s.vector(%3$s) not null,
      index_build_id int not null,
      primary key (tenant_id, chunk_id)
    ) partition by list (tenant_id)
  $ddl$, set_id, zeroth.vector_schema(), in_dimension);
  -- In line, an exact scan reads the vectors from the heap alone; out of line, it follows a pointer per row. Above this
  -- size a row would not fit its page.
  if in_dimension <= 1800 then
    execute format('alter table zeroth.chunk_%s alter column embedding set storage plain', set_id);
  end if;
  execute format('alter table zeroth.chunk_%s enable row level security', set_id);
  execute format('alter table zeroth.chunk_%s force row level security', set_id);
  execute format($ddl$
    create policy app_reads on zeroth.chunk_%s for select to zeroth_app
      using (tenant_id = any ((select zeroth.permitted_tenants())::int[]))
  $ddl$, set_id);
  execute format($ddl$
    create policy loader_keeps on zeroth.chunk_%s to zeroth_loader
      using (tenant_id = (select zeroth.loading_tenant()))
      with check (tenant_id = (select zeroth.loading_tenant()))
  $ddl$, set_id);
  execute format('grant select on zeroth.chunk_%s to zeroth_app', set_id);
  execute format('grant select, insert, delete on zeroth.chunk_%s to zeroth_loader', set_id);
  return set_id;
end
$$;
comment on function zeroth.ensure_chunk_set(text, int) is
  'The id of a chunk set''s table for vectors of one dimension, made if absent. No index on the vectors: each partition has its own.';
revoke all on function zeroth.ensure_chunk_set(text, int) from public;

create function zeroth.partition_name(in_set int, in_tenant int) returns text
language sql immutable strict
set search_path = pg_catalog, pg_temp
as $$ select format('chunk_%s_t%s', in_set, in_tenant) $$;
revoke all on function zeroth.partition_name(int, int) from public;
grant execute on function zeroth.partition_name(int, int) to zeroth_loader;

create function zeroth.partition_exists(in_set int, in_tenant int) returns boolean
language sql stable strict
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_class p on p.oid = i.inhparent
    join pg_namespace n on n.oid = c.relnamespace and n.oid = p.relnamespace
    where n.nspname = 'zeroth'
      and p.relname = format('chunk_%s', in_set)
      and c.relname = format('chunk_%s_t%s', in_set, in_tenant)
      and not i.inhdetachpending
  )
$$;
revoke all on function zeroth.partition_exists(int, int) from public;
grant execute on function zeroth.partition_exists(int, int) to zeroth_loader;

-- Refuses an id that names nothing, so that no function below can be made to touch a table that is not a chunk table.
create function zeroth.require_known(in_set int, in_tenant int) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from zeroth.chunk_set s where s.chunk_set_id = in_set) then
    raise exception 'there is no chunk set %', in_set using errcode = 'ZA001';
  end if;
  if not exists (select from zeroth.tenant t where t.tenant_id = in_tenant) then
    raise exception 'there is no tenant %', in_tenant using errcode = 'ZA002';
  end if;
end
$$;
revoke all on function zeroth.require_known(int, int) from public;

create function zeroth.stage_partition(in_set int, in_tenant int) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  child text := zeroth.partition_name(in_set, in_tenant);
begin
  perform zeroth.require_known(in_set, in_tenant);
  if zeroth.partition_exists(in_set, in_tenant) then
    raise exception 'partition % is attached already', child using errcode = 'ZA003';
  end if;
  -- Without indexes: they are built after COPY. The check equals the partition bound, which spares ATTACH its scan.
  execute format(
    'create table zeroth_staging.%1$I (like zeroth.%2$I including all excluding indexes, '
    'constraint %1$s_bound check (tenant_id = %3$s))',
    child, format('chunk_%s', in_set), in_tenant);
  -- COPY FROM is refused where row-level security binds the caller; attach_partition turns it on.
  execute format('grant insert on zeroth_staging.%I to zeroth_loader', child);
  return child;
end
$$;
comment on function zeroth.stage_partition(int, int) is
  'An empty table for a tenant''s first load, for the caller''s transaction to fill, index and attach.';
revoke all on function zeroth.stage_partition(int, int) from public;
grant execute on function zeroth.stage_partition(int, int) to zeroth_loader;

create function zeroth.index_partition(in_set int, in_tenant int, in_build int, in_m int, in_ef_construction int) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  child text := zeroth.partition_name(in_set, in_tenant);
  index_name text := format('%s_hnsw_%s', child, in_build);
  home text;
begin
  perform zeroth.require_known(in_set, in_tenant);
  if not coalesce(in_build > 0 and in_m between 2 and 100 and in_ef_construction between 4 and 1000, false) then
    raise exception 'index parameters out of range' using errcode = 'ZA004';
  end if;
  home := case
    when to_regclass(format('zeroth_staging.%I', child)) is not null then 'zeroth_staging'
    when zeroth.partition_exists(in_set, in_tenant) then 'zeroth'
  end;
  if home is null then
    raise exception 'partition % is neither staged nor attached', child using errcode = 'ZA005';
  end if;
  -- On an attached partition this locks out other writers (SHARE); readers go on.
  execute format(
    'create index %I on %I.%I using hnsw (embedding %s.vector_cosine_ops) with (m = %s, ef_construction = %s)',
    index_name, home, child, zeroth.vector_schema(), in_m, in_ef_construction);
  return index_name;
end
$$;
comment on function zeroth.index_partition(int, int, int, int, int) is
  'Builds a tenant''s HNSW index for cosine distance, beside any that it has. Returns the index''s name.';
revoke all on function zeroth.index_partition(int, int, int, int, int) from public;
grant execute on function zeroth.index_partition(int, int, int, int, int) to zeroth_loader;

create function zeroth.attach_partition(in_set int, in_tenant int) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  child text := zeroth.partition_name(in_set, in_tenant);
begin
  perform zeroth.require_known(in_set, in_tenant);
  if to_regclass(format('zeroth_staging.%I', child)) is null then
    raise exception 'partition % is not staged', child using errcode = 'ZA005';
  end if;
  execute format('revoke all on zeroth_staging.%I from zeroth_loader', child);
  -- ATTACH copies neither flag, and a policy on the parent does not guard the child: with both set and no policy of its
  -- own, the child yields nothing to anyone who names it, whatever is granted later.
  execute format('alter table zeroth_staging.%I enable row level security', child);
  execute format('alter table zeroth_staging.%I force row level security', child);
  execute format('alter table zeroth_staging.%1$I add constraint %1$s_pkey primary key (tenant_id, chunk_id)', child);
  execute format('alter table zeroth_staging.%I set schema zeroth', child);
  execute format('alter table zeroth.%I attach partition zeroth.%I for values in (%s)',
    format('chunk_%s', in_set), child, in_tenant);
  execute format('alter table zeroth.%1$I drop constraint %1$s_bound', child);
  execute format('analyze zeroth.%I', child);
end
$$;
comment on function zeroth.attach_partition(int, int) is
  'Makes a staged table the tenant''s partition. Readers go on: the parent is locked SHARE UPDATE EXCLUSIVE until commit.';
revoke all on function zeroth.attach_partition(int, int) from public;
grant execute on function zeroth.attach_partition(int, int) to zeroth_loader;

create function zeroth.drop_superseded_indexes(in_set int, in_tenant int) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
  child text := zeroth.partition_name(in_set, in_tenant);
  former text;
  dropped int := 0;
begin
  perform zeroth.require_known(in_set, in_tenant);
  for former in
    select i.relname
    from pg_index x
    join pg_class i on i.oid = x.indexrelid
    join pg_class t on t.oid = x.indrelid
    join pg_namespace n on n.oid = t.relnamespace
    join pg_am a on a.oid = i.relam
    where n.nspname = 'zeroth' and t.relname = child and a.amname = 'hnsw'
      and i.relname not in (
        select b.index_name from zeroth.index_build b
        where b.chunk_set_id = in_set and b.tenant_id = in_tenant and b.status = 'live' and b.index_name is not null)
  loop
    execute format('drop index zeroth.%I', former);
    dropped := dropped + 1;
  end loop;
  return dropped;
end
$$;
comment on function zeroth.drop_superseded_indexes(int, int) is
  'Drops a tenant''s HNSW indexes other than its live build''s. The lock (ACCESS EXCLUSIVE on the one partition) is '
  'waited for 200 ms at most, since readers queue behind it.';
revoke all on function zeroth.drop_superseded_indexes(int, int) from public;
grant execute on function zeroth.drop_superseded_indexes(int, int) to zeroth_loader;
