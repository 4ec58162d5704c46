package store

import "errors"

// load reads stored chunks, as many together as are wanted at that moment.
func (f *Feed) load(loaded chan<- *stretch) {
	for {
		f.mu.Lock()
		for len(f.pending) == 0 && f.context.Err() == nil {
			f.wake.Wait()
		}
		batch := f.pending
		f.pending = nil
		f.mu.Unlock()
		if f.context.Err() != nil {
			return
		}
		if err := f.loadAll(batch, loaded); err != nil {
			for _, s := range batch {
				f.settle(s, err) // those that were loaded are settled by themselves
			}
		}
	}
}

func (f *Feed) loadAll(batch []*stretch, loaded chan<- *stretch) error {
	var wanted []Ref
	var of []*stretch // whose each is
	for _, s := range batch {
		r := &s.part.stretches[s.number]
		for i := r.first; i < r.last; i++ {
			if !s.part.Chunks[i].Hole() {
				wanted = append(wanted, Ref{s.part.number, uint32(i)})
				of = append(of, s)
			}
		}
	}
	at := int64(0) // in the buffer
	err := f.image.Chunks(f.context, wanted, func(n int, stored []byte) error {
		s := of[n]
		if n == 0 || of[n-1] != s {
			at = 0
		}
		chunks := s.part.Chunks[s.part.stretches[s.number].first:]
		index := int(wanted[n].Chunk) - s.part.stretches[s.number].first
		for i := len(s.ends); i < index; i++ { // holes
			s.ends = append(s.ends, 0)
			at += chunks[i].Size
		}
		size := chunks[index].Size
		if int64(len(stored)) == size {
			copy(s.buffer[at:at+size], stored)
			s.ends = append(s.ends, 0)
		} else {
			s.stored = append(s.stored, stored...)
			s.ends = append(s.ends, len(s.stored))
		}
		at += size
		if n+1 == len(wanted) || of[n+1] != s {
			loaded <- s
		}
		return nil
	})
	return err
}

// unpack makes a stretch's bytes of what was read, and compares them.
func (f *Feed) unpack(s *stretch) error {
	r := &s.part.stretches[s.number]
	at, begin := int64(0), 0
	for i := r.first; i < r.last; i++ {
		c := s.part.Chunks[i]
		room := s.buffer[at : at+c.Size : at+c.Size]
		at += c.Size
		if c.Hole() {
			clear(room)
			continue
		}
		stored := room
		if end := s.ends[i-r.first]; end > 0 {
			stored, begin = s.stored[begin:end], end
		}
		if _, err := expandChunk(c, stored, room); err != nil {
			ref := Ref{s.part.number, uint32(i)}
			return &Damage{Image: f.digest, Part: s.part.Name, Chunk: i, File: f.image.File(ref), What: err.Error()}
		}
	}
	return nil
}

// settle makes a stretch ready, once.
func (f *Feed) settle(s *stretch, err error) {
	f.mu.Lock()
	select {
	case <-s.ready:
		f.mu.Unlock()
		return
	default:
	}
	f.scratch, s.stored = append(f.scratch, s.stored), nil
	s.err = err
	first := err != nil && f.failure == nil
	if first {
		f.failure = err
	}
	close(s.ready)
	f.mu.Unlock()
	var damage *Damage
	if first && errors.As(err, &damage) {
		f.damaged()
	}
}
